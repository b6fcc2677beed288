// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// page is one of docs, whose steps may be indented.
type page string

func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return page(regexp.MustCompile("(?m)^   ").ReplaceAllString(string(text), ""))
}

// step returns the commands that follow a mark.
func (p page) step(t *testing.T, mark string) string {
	t.Helper()
	_, text, found := strings.Cut(string(p), "<!-- tested: "+mark+" -->\n```sh\n")
	text, _, ends := strings.Cut(text, "```")
	if !found || !ends {
		t.Fatalf("no commands with the mark %q", mark)
	}
	return text
}

// files returns the files of a page by their paths.
func (p page) files() map[string]string {
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)`(\\S+)`:\n```\\w+\n(.*?)```").FindAllStringSubmatch(string(p), -1) {
		files[m[1]] = m[2]
	}
	return files
}

// TestServiceAndUninstallPages: from a host with the package to the service of docs/service.md, which another machine of the LAN
// reaches, and by docs/uninstall.md to a host without anything of it.
func TestServiceAndUninstallPages(t *testing.T) {
	m := newMachine(t)
	m.must("sh", "-ec", `ip netns add lan; ip link add eno1 type veth peer name eth0 netns lan; ip link set eno1 up
ip -n lan address add 192.0.2.1/24 dev eth0; ip -n lan link set eth0 up`)
	service := readPage(t, "service.md")
	files := service.files()
	if len(files) != 4 {
		t.Fatalf("%d files, want 4", len(files))
	}
	for path, text := range files {
		m.write(path, strings.ReplaceAll(text, "/usr/bin/python3 -m http.server 80", "/usr/local/bin/web serve hello"))
	}
	m.must("sh", "-euxc", service.step(t, "start"))
	m.requireLAN()
	m.must("sh", "-euxc", service.step(t, "stop"))
	if out := m.must("allocnet", "status", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("after the stop there is %s", out)
	}
	m.must("systemctl", "start", "shop.service")
	m.must("rm", "/etc/systemd/system/shop.service")
	m.uninstall(readPage(t, "uninstall.md"))
}

// requireLAN requires that the service answers another machine at its address, has a second network, and sends by the LAN's router.
func (m *machine) requireLAN() {
	m.Helper()
	m.await("the service answers on the LAN", func() bool {
		_, code := m.exitCode("ip", "netns", "exec", "lan", "timeout", "5", "bash", "-c", ": </dev/tcp/192.0.2.20/80")
		return code == 0
	})
	a, err := m.client.Allocation(ctx, "shop")
	if err != nil || len(a.Attachments) != 2 {
		m.Fatalf("shop is %v, %v", a, err)
	}
	for i, subnet := range []string{"192.0.2.20/32", "10.89.0.0/16"} {
		if got := a.Attachments[i].Addresses; len(got) != 1 || !netip.MustParsePrefix(subnet).Contains(got[0].Addr()) {
			m.Errorf("%s has %v, want an address of %s", a.Attachments[i].Interface, got, subnet)
		}
	}
	if routes := m.must("ip", "-n", "shop", "route", "show", "default"); !strings.Contains(routes, "via 192.0.2.1 dev eth0") {
		m.Errorf("the default route is %s", routes)
	}
}

// uninstall runs the page while an allocation with published ports is attached, and requires that nothing is left.
func (m *machine) uninstall(uninstall page) {
	m.Helper()
	m.must("allocnet", "attach", "web-1", "--primary", "web", "--networks", "storage", "--publish", "8080:80")
	for _, mark := range []string{"detach", "package", "files", "left"} {
		m.must("bash", "-euxo", "pipefail", "-c", uninstall.step(m.T, mark))
	}
	m.outside(uninstall.step(m.T, "tables")) // the machine has no nft
	left := m.must("bash", "-c", `find / -xdev -name '*allocnet*' -not -path '/root/*' -not -path '/var/log/*' -not -path '/proc/*' -not -path '/sys/*' -not -path '/run/systemd/*'
ip -brief link show type bridge; ip -brief link show type veth | grep -v eno1
iptables-save | grep -e CNI -e allocnet; ip6tables-save | grep -e CNI -e allocnet; ls /var/lib/cni 2>/dev/null; ls /run/netns | grep -v lan; ls /etc/netns 2>/dev/null; true`) + m.outside("nft list tables | grep -e cni -e allocnet || true")
	if left = strings.TrimSpace(left); left != "" {
		m.Errorf("left:\n%s", left)
	}
}

// outside runs a script of the test's own programs in the network of the machine.
func (m *machine) outside(script string) string {
	m.Helper()
	out, err := exec.Command("nsenter", "-t", fmt.Sprint(m.leader), "-n", "bash", "-euo", "pipefail", "-c", script).CombinedOutput()
	if err != nil {
		m.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}
