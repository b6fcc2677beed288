// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// startUdev has the machine's udevd follow its links, as on a host: systemd and network managers take a /sys that
// cannot be written for that of a container, which has no udevd. The events of the real machine's devices are not
// asked for.
const startUdev = `
mount --rbind /sys/fs/cgroup /mnt
mount -t sysfs sysfs /sys
mount -o remount,rw /sys
mount --rbind /mnt /sys/fs/cgroup
systemctl start systemd-udevd.service
udevadm trigger --action=add --subsystem-match=net
udevadm settle`

// managedNetworks are networks of each kind that has a link on the host, or one of its links as a master, beside web
// and storage.
var managedNetworks = map[string]string{
	"point": `{"type": "ptp", "ipMasq": true, "ipam": {"type": "host-local",
		"ranges": [[{"subnet": "10.92.0.0/16"}], [{"subnet": "fd00:92::/64"}]], "routes": [{"dst": "10.200.0.0/16"}]}}`,
	"limited": `{"type": "bridge", "bridge": "limited0", "isGateway": true,
		"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.93.0.0/16"}], [{"subnet": "fd00:93::/64"}]]}},
		{"type": "bandwidth", "ingressRate": 1000000, "ingressBurst": 1000000, "egressRate": 1000000, "egressBurst": 1000000}`,
	"vlan": `{"type": "macvlan", "master": "eth0", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.91.0.0/16"}]]}}`,
}

const (
	perAllocation = 5 // links on the host: four pairs, and a device for limits
	bridgeLinks   = 3
)

// ofAttachments matches the lines of links of attachments in what a manager lists.
var ofAttachments = regexp.MustCompile(`(?m)^.*\b(?:veth[0-9a-f]{8}|bwp[0-9a-f]{12}|web0|storage0|limited0)\b.*$`)

// managed is a machine with udev and a manager that configures all links, if nothing keeps it from that.
type managed struct {
	*machine
	unit string
	list []string
}

// bootManaged boots the machine, and gives it networks and an uplink.
func bootManaged(t *testing.T, unit string, list []string, without ...string) *managed {
	t.Helper()
	m := &managed{bootWithout(t, append(without, firewalld...)...), unit, list}
	for _, name := range []string{"ptp", "macvlan", "bandwidth"} {
		m.copy(filepath.Join(sandbox.PluginDir(), name), "/opt/cni/bin/"+name)
	}
	for name, plugins := range managedNetworks {
		m.write("/opt/cni/config/40-"+name+".conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [%s]}`, name, plugins))
	}
	m.must("ln", "-s", "/dev/null", "/etc/udev/rules.d/85-nm-unmanaged.rules") // NetworkManager's own, which exclude pairs
	m.addPair("eth0")
	m.must("sh", "-ec", startUdev)
	return m
}

func (m *managed) addPair(name string) {
	m.Helper()
	m.must("ip", "link", "add", name, "up", "type", "veth", "peer", "name", name+"far")
	m.must("ip", "link", "set", name+"far", "up")
}

// attach attaches an allocation to all networks.
func (m *managed) attach(id string, more ...string) {
	m.Helper()
	m.must(append([]string{"allocnet", "attach", id, "--primary", "web", "--networks", "storage,point,limited,vlan"}, more...)...)
}

// settle waits until udev and the manager are done with all links that there are: a pair that comes after them is configured.
func (m *managed) settle() {
	m.Helper()
	m.addPair("eth1")
	m.must("udevadm", "settle")
	configured := regexp.MustCompile(`(?m)\beth1\b.*(?:\bconfigur|:connecting)`)
	m.await("a link that is none of an attachment is configured", func() bool { return configured.MatchString(m.must(m.list...)) })
	m.must("ip", "link", "del", "eth1")
}

// requireLeft requires that the manager leaves the links of some allocations alone, and that they are as they were made.
func (m *managed) requireLeft(ids ...string) {
	m.Helper()
	m.settle()
	m.requireUnmanaged(len(ids))
	addresses := m.must("sh", "-c", "cd /sys/class/net && grep . */address")
	for _, id := range ids {
		m.requireMACs(id, addresses)
		m.must("allocnet", "check", id)
	}
	m.must("allocnet", "repair", "--dry-run")
	if events := m.must("allocnet", "events"); strings.Contains(events, "repaired") {
		m.Errorf("the agent has repaired:\n%s", events)
	}
	if report, _ := m.exitCode("allocnet", "doctor"); strings.Contains(report, "configures") {
		m.Errorf("doctor says\n%s", report)
	}
}

// requireUnmanaged requires that the manager says of all links of so many allocations that it leaves them alone.
func (m *managed) requireUnmanaged(allocations int) {
	m.Helper()
	lines := ofAttachments.FindAllString(m.must(m.list...), -1)
	if len(lines) != bridgeLinks+allocations*perAllocation {
		m.Errorf("the manager has %d links of %d allocations:\n%s", len(lines), allocations, strings.Join(lines, "\n"))
	}
	for _, line := range lines {
		if !strings.Contains(line, "unmanaged") {
			m.Errorf("not left alone: %s", line)
		}
	}
}

// requireMACs requires that links of the host have the names and MACs that ADD returned. Plugins that are executed leave MACs
// to the kernel, and udev.
func (m *managed) requireMACs(id, addresses string) {
	m.Helper()
	var status struct {
		Attachments []struct {
			Result struct {
				Interfaces []struct{ Name, MAC, Sandbox string }
			}
		}
	}
	if err := json.Unmarshal([]byte(m.must("allocnet", "status", id, "--json")), &status); err != nil {
		m.Fatal(err)
	}
	compared := 0
	for _, a := range status.Attachments {
		for _, link := range a.Result.Interfaces {
			if link.Sandbox != "" {
				continue
			}
			if compared++; !strings.Contains(addresses, link.Name+"/address:"+link.MAC+"\n") && id != "executed" {
				m.Errorf("%s: %s has no longer the MAC %s:\n%s", id, link.Name, link.MAC, addresses)
			}
		}
	}
	if compared != bridgeLinks+perAllocation {
		m.Errorf("%s: %d MACs: %+v", id, compared, status)
	}
}

// requireManaged attaches while the manager runs and starts again, and compares what there is with what the engine made.
func (m *managed) requireManaged() {
	m.Helper()
	uplink := ""
	m.await("the uplink is configured", func() bool {
		uplink = m.must("ip", "-4", "route", "show", "dev", "eth0")
		return strings.Contains(uplink, "default via 192.0.2.1 ") && strings.Contains(uplink, "src 192.0.2.7")
	})
	for _, executor := range []string{"auto", "plugins"} { // each makes objects once for all allocations
		m.attach("warm", "--publish", "4000:80", "--executor", executor)
		m.must("allocnet", "detach", "warm")
	}
	before := m.snapshot()
	last := 8020 // 100 attachments
	if testing.Short() {
		last = 8001
	}
	m.must("sh", "-ec", fmt.Sprintf("seq 8001 %d | xargs -P 8 -I{} allocnet attach a{} --primary web --networks storage,point,limited,vlan --publish {}:80", last))
	m.attach("executed", "--executor", "plugins")
	ids := []string{"executed"}
	for port := 8001; port <= last; port++ {
		ids = append(ids, fmt.Sprintf("a%d", port))
	}
	m.requireLeft(ids...)
	m.must("systemctl", "restart", m.unit)
	m.requireLeft(ids...)
	if routes := m.must("ip", "-4", "route", "show", "dev", "eth0"); routes != uplink {
		m.Errorf("the uplink has the routes\n%s, and had\n%s", routes, uplink)
	}
	for _, id := range ids {
		m.must("allocnet", "detach", id)
	}
	m.requireSame(before)
}

// requireAdvice requires that the manager configures links without the files of the package, that doctor says so, and that its
// command excludes them. An installation under a manager that runs does so, too.
func (m *managed) requireAdvice() {
	m.Helper()
	m.must("rm", "/usr/lib/udev/rules.d/71-allocnet.rules", "/usr/lib/systemd/network/00-allocnet.network")
	m.must("udevadm", "control", "--reload")
	m.must("systemctl", "restart", m.unit)
	m.attach("taken")
	m.settle()
	name := strings.TrimSuffix(m.unit, ".service")
	report, code := m.exitCode("allocnet", "doctor")
	fix := regexp.MustCompile(`(?m)^ERROR +` + name + `: configures .*\bveth.*\n +fix: (.*)$`).FindStringSubmatch(report)
	if fix == nil || code == 0 {
		m.Fatalf("doctor has no error of %s, and exits with %d:\n%s", name, code, report)
	}
	m.must("sh", "-c", fix[1])
	m.await("the command works", func() bool {
		report, _ := m.exitCode("allocnet", "doctor")
		return !strings.Contains(report, "configures")
	})
	m.must("allocnet", "detach", "taken")
	m.attach("excluded")
	m.settle()
	m.requireUnmanaged(1)
	m.must("allocnet", "detach", "excluded")
	m.must("rm", "-f", "/etc/systemd/network/00-cni.network", "/etc/NetworkManager/conf.d/00-cni.conf")
	m.must("systemctl", "restart", m.unit)
	m.install(upgrade)
	m.attach("upgraded")
	m.settle()
	m.requireUnmanaged(1)
}

// TestLongNetworkdLeavesLinks: a systemd-networkd that configures every link of the host leaves those of attachments alone.
func TestLongNetworkdLeavesLinks(t *testing.T) {
	m := bootManaged(t, "systemd-networkd.service", []string{"networkctl", "--full", "--no-legend", "--no-pager", "list"}, networkManager)
	for link, text := range map[string]string{
		"10-eth0": "[Match]\nName=eth0\n[Network]\nLinkLocalAddressing=no\nAddress=192.0.2.7/24\nGateway=192.0.2.1\n",
		"20-all":  "[Match]\nName=*\n[Network]\nDHCP=yes\n",
	} {
		m.write("/etc/systemd/network/"+link+".network", text)
	}
	m.must("systemctl", "start", m.unit)
	m.requireManaged()
	m.requireAdvice()
}

// TestLongNetworkManagerLeavesLinks: NetworkManager that configures pairs does so, too.
func TestLongNetworkManagerLeavesLinks(t *testing.T) {
	m := bootManaged(t, "NetworkManager.service", []string{"nmcli", "--get-values", "DEVICE,STATE", "device"})
	m.must("systemctl", "restart", m.unit)
	m.must("nmcli", "connection", "add", "type", "ethernet", "con-name", "up", "ifname", "eth0", "ipv6.method", "disabled",
		"ipv4.method", "manual", "ipv4.addresses", "192.0.2.7/24", "ipv4.gateway", "192.0.2.1")
	m.must("nmcli", "connection", "up", "up")
	m.requireManaged()
	m.requireAdvice()
}
