// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// step returns a block of commands of a page, which may be indented, with the directories of this host.
func (h *host) step(page, mark string) string {
	h.t.Helper()
	text := regexp.MustCompile("(?m)^   ").ReplaceAllString(example(h.t, "../docs/"+page, mark), "")
	return strings.NewReplacer("/opt/cni/config/", h.conf+"/", "/etc/allocnet/networks", h.own, "/etc/allocnet.d", h.conf+"/agent").Replace(text)
}

// empty removes the networks of the host: a page writes them.
func (h *host) empty() {
	h.t.Helper()
	if err := os.RemoveAll(h.conf); err != nil {
		h.t.Fatal(err)
	}
	if err := os.MkdirAll(h.conf+"/agent", 0o700); err != nil {
		h.t.Fatal(err)
	}
}

// TestTwoNetworksPage: from a host without networks to an allocation with the two of docs/two-networks.md, and the conflists for
// both forms of its job.
func TestTwoNetworksPage(t *testing.T) {
	h := newHost(t)
	h.empty()
	h.installPlugin()
	nomadSelf(t)
	const page = "two-networks.md"
	h.shell(h.step(page, "tested: networks") + h.step(page, "tested: multi"))
	a := h.attach("two", "--primary", "web", "--networks", "storage")
	requireInterfaces(t, a, map[string]string{"eth0": "10.88.0.0/16", "net1": "10.89.0.0/16"})
	h.must("detach", "two")
	t.Setenv("ALLOCNET_CONFIG", h.conf+"/agent")
	h.shell(h.step(page, "tested: agent") + h.step(page, "tested: meta"))
	if conflist := read(t, h.conf+"/00-multi.conflist"); !strings.Contains(conflist, `"jobNetworks": true`) {
		t.Errorf("the conflist does not require the agent:\n%s", conflist)
	}
}

// requireInterfaces compares interfaces and the subnets of their addresses.
func requireInterfaces(t *testing.T, allocation *hook.Allocation, want map[string]string) {
	t.Helper()
	if got := len(allocation.Attachments); got != len(want) {
		t.Errorf("%d attachments, want %d", got, len(want))
	}
	for _, a := range allocation.Attachments {
		if subnet, err := netip.ParsePrefix(want[a.Interface]); err != nil || len(a.Addresses) == 0 || !subnet.Contains(a.Addresses[0].Addr()) {
			t.Errorf("%s of %s has %v, want an address of %q", a.Interface, a.Network, a.Addresses, want[a.Interface])
		}
	}
}

// TestVLANPage: the network and the attachment of docs/vlan.md, on a link with the name of its VLAN. What a job may not choose is
// refused, also where Nomad would not refuse it.
func TestVLANPage(t *testing.T) {
	h := newHost(t)
	h.useDist()
	h.own = t.TempDir()
	sandbox.Run(t, "ip", "link", "add", "eno1.100", "type", "veth", "peer", "name", "switch")
	defer sandbox.Run(t, "ip", "link", "delete", "eno1.100")
	sandbox.Run(t, "ip", "link", "set", "eno1.100", "up")
	h.shell(h.step("vlan.md", "tested: network"))
	h.shell(strings.Replace(h.step("vlan.md", "tested: attach"), "show data0", "show data0 | grep -w 192.0.2.70/24", 1))
	h.must("attach", "first", "--primary", "web", "--networks", `[{"name": "lan100", "ips": ["192.0.2.70/24"]}]`)
	h.refuse(2, []string{"192.0.2.70", "allocation first has it"}, "attach", "second", "--primary", "web", "--networks", `[{"name": "lan100", "ips": ["192.0.2.70/24"]}]`)
	h.must("detach", "first")
	if out := h.allocnet("doctor", "--nomad-conf-dir", h.conf).stdout; strings.Contains(out, "lan100") {
		t.Errorf("the host of the page has a problem with the network:\n%s", out)
	}
}

// TestUninstallPage: of attachments that run, nothing is left but what networks leave by design.
func TestUninstallPage(t *testing.T) {
	h := newHost(t)
	h.useDist()
	h.attach("web-1", "--primary", "web", "--networks", "storage", "--publish", "8080:80")
	h.attach("web-2", "--primary", "web")
	h.shell(h.step("uninstall.md", "tested: detach"))
}
