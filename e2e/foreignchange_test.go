// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// changedNetwork writes the network "changed", on the bridge change0 unless plugin is another one, with further plugins.
func (h *host) changedNetwork(plugin, more string) {
	h.t.Helper()
	sandbox.WriteFile(h.t, h.conf+"/60-changed.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "changed", "plugins": [{%s, "ipMasq": true,
		"ipam": {"type": "host-local", "dataDir": "/run/changed", "ranges": [[{"subnet": "10.97.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}%s]}`, plugin, more))
	h.t.Cleanup(func() { _ = os.RemoveAll("/run/changed") })
}

const changedBridge = `"type": "bridge", "bridge": "change0", "isGateway": true`

// eachExecutor runs a test with networks in process and with the plugins.
func eachExecutor(t *testing.T, test func(t *testing.T, h *host)) {
	t.Helper()
	for _, executor := range []string{"auto", "plugins"} {
		t.Run(executor, func(t *testing.T) {
			t.Setenv("ALLOCNET_EXECUTOR", executor)
			test(t, newHost(t))
		})
	}
}

// endOf returns the host's end of the pair of an allocation's eth0.
func endOf(t *testing.T, id string) string {
	t.Helper()
	index := strings.TrimSpace(sandbox.Run(t, "ip", "netns", "exec", id, "cat", "/sys/class/net/eth0/iflink"))
	return strings.TrimSpace(sandbox.Run(t, "sh", "-c", `grep -lx `+index+` /sys/class/net/*/ifindex | cut -d/ -f5`))
}

// requireHealthy requires that nothing is missing, and that nothing is made.
func (h *host) requireHealthy(id string) {
	h.t.Helper()
	h.must("check", id)
	h.must("repair", "--dry-run", id)
	h.must("repair", id)
}

// TestRenamedHostEnd: an operator's name for the host's end of a pair, even with another MAC, and for the device of its limits, is
// no damage, and DEL leaves nothing of them.
func TestRenamedHostEnd(t *testing.T) {
	const limits = `, {"type": "bandwidth", "ingressRate": 80000000, "ingressBurst": 8000000, "egressRate": 80000000, "egressBurst": 8000000}`
	for name, plugin := range map[string]string{"bridge": changedBridge, "ptp": `"type": "ptp"`} {
		t.Run(name, func(t *testing.T) {
			eachExecutor(t, func(t *testing.T, h *host) {
				h.changedNetwork(plugin, limits)
				h.attach("renamed1", "--primary", "changed")
				sandbox.Run(t, "ip", "link", "set", endOf(t, "renamed1"), "name", "tap-renamed1")
				h.requireHealthy("renamed1")
				sandbox.Run(t, "ip", "link", "set", "tap-renamed1", "address", "02:99:99:99:99:01")
				h.requireHealthy("renamed1")
				sandbox.Run(t, "sh", "-c", "for i in /sys/class/net/bwp*; do ip link set ${i##*/} name lim-renamed1; done")
				h.requireHealthy("renamed1")
				h.must("detach", "renamed1")
				if now := links(t); now["tap-renamed1"] || now["lim-renamed1"] {
					t.Errorf("renamed links are left: %v", now)
				}
				sandbox.Run(t, "sh", "-c", "ip link del change0 2>/dev/null || true")
			})
		})
	}
}

// gatewayLinks returns how many links of the host have an address.
func gatewayLinks(t *testing.T, address string) int {
	t.Helper()
	return strings.Count(sandbox.Run(t, "ip", "-o", "-4", "addr", "show"), " "+address+"/")
}

// TestRenamedBridge: a bridge under another name is no damage, and no second one is made with the gateway's address.
func TestRenamedBridge(t *testing.T) {
	eachExecutor(t, func(t *testing.T, h *host) {
		h.changedNetwork(changedBridge, "")
		h.attach("bridge1", "--primary", "changed")
		sandbox.Run(t, "ip", "link", "set", "change0", "name", "br-change")
		defer sandbox.Run(t, "ip", "link", "del", "br-change")
		h.requireHealthy("bridge1")
		if links(t)["change0"] {
			t.Error("a second bridge was made")
		}
		sandbox.Run(t, "ip", "link", "set", "br-change", "down")
		h.must("repair", "bridge1")
		h.requireHealthy("bridge1")
		h.must("detach", "bridge1")
	})
}

// TestPortInAnotherBridge: a port that an operator has given to another bridge is reported, and nothing is made.
func TestPortInAnotherBridge(t *testing.T) {
	eachExecutor(t, func(t *testing.T, h *host) {
		h.changedNetwork(changedBridge, "")
		h.attach("port1", "--primary", "changed")
		sandbox.Run(t, "sh", "-ec", "ip link add br-other type bridge; ip link set "+endOf(t, "port1")+
			" master br-other; ip link del change0; ip addr add 10.97.0.1/24 dev br-other; ip link set br-other up")
		defer sandbox.Run(t, "ip", "link", "del", "br-other")
		h.refuse(1, []string{"is a port of br-other, which another program has made it"}, "repair", "port1")
		if n := gatewayLinks(t, "10.97.0.1"); n != 1 || links(t)["change0"] {
			t.Errorf("%d links have the gateway's address, change0 is there: %t", n, links(t)["change0"])
		}
		h.must("detach", "port1")
	})
}

// TestMovedOnPurpose: an interface that a task has renamed, put behind a bridge of its name, or moved into a container of its own is
// no damage for any of the commands that compare. What the host has for it is repaired nevertheless.
func TestMovedOnPurpose(t *testing.T) {
	for name, plugin := range map[string]string{"bridge": changedBridge, "ptp": `"type": "ptp"`} {
		for how, move := range map[string]string{
			"renamed":         "ip -n taken1 link set eth0 down; ip -n taken1 link set eth0 name lan; ip -n taken1 link set lan up",
			"behind a bridge": "ip -n taken1 link set eth0 down; ip -n taken1 link set eth0 name nic0; ip -n taken1 link add eth0 type bridge; ip -n taken1 link set nic0 up master eth0",
			"in a container":  "ip netns add inner1; ip -n taken1 link set eth0 netns inner1",
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				eachExecutor(t, func(t *testing.T, h *host) {
					h.changedNetwork(plugin, `, {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}}`)
					h.attach("taken1", "--primary", "changed")
					sandbox.Run(t, "sh", "-ec", move)
					defer sandbox.Run(t, "sh", "-c", "ip netns del inner1; ip link del change0; true")
					h.requireHealthy("taken1")
					if out := h.must("status"); strings.Contains(out, "gone") || strings.Contains(out, "broken") {
						t.Errorf("status says\n%s", out)
					}
					if out := h.allocnet("doctor"); strings.Contains(out.stdout+out.stderr, "taken1") {
						t.Errorf("doctor says\n%s", out.stdout)
					}
					sandbox.Run(t, "sh", "-ec", `iptables -t nat -S POSTROUTING | sed -n '/taken1/s/^-A/iptables -t nat -D/p' | sh -e`)
					h.refuse(1, []string{"missing: rule in chain POSTROUTING of table nat"}, "check", "taken1")
					h.must("repair", "taken1")
					h.requireHealthy("taken1")
					h.must("detach", "taken1")
				})
			})
		}
	}
}

// TestGatewayWithAnotherPrefix: the operator's address of the bridge may have another length of the prefix than the range.
// The reference plugin refuses it.
func TestGatewayWithAnotherPrefix(t *testing.T) {
	eachExecutor(t, func(t *testing.T, h *host) {
		h.changedNetwork(changedBridge, "")
		executed := os.Getenv("ALLOCNET_EXECUTOR") == "plugins"
		sandbox.Run(t, "sh", "-ec", "ip link add change0 type bridge; ip addr add 10.97.0.1/16 dev change0; ip link set change0 up")
		defer sandbox.Run(t, "ip", "link", "del", "change0")
		if executed {
			h.refuse(1, []string{"already has an IP address"}, "attach", "prefix1", "--primary", "changed")
			sandbox.Run(t, "ip", "link", "del", "change0")
		}
		h.attach("prefix1", "--primary", "changed")
		for _, address := range []string{"10.97.0.1/16 dev change0", "10.97.0.1/32 dev change0; ip route add 10.97.0.0/24 dev change0"} {
			sandbox.Run(t, "sh", "-ec", "ip addr flush dev change0 scope global; ip addr add "+address)
			h.requireHealthy("prefix1")
			if n := gatewayLinks(t, "10.97.0.1"); n != 1 {
				t.Errorf("the bridge has the gateway %d times", n)
			}
		}
		h.must("detach", "prefix1")
	})
}

// TestSettingsThatSuffice: route_localnet of all links is as good as that of the bridge, and the route to the network of an
// address may have any metric.
func TestSettingsThatSuffice(t *testing.T) {
	eachExecutor(t, func(t *testing.T, h *host) {
		h.changedNetwork(changedBridge, `, {"type": "portmap", "capabilities": {"portMappings": true}}`)
		sandbox.WriteFile(t, h.conf+"/60-direct.conflist", `{"cniVersion": "1.0.0", "name": "direct", "plugins": [{"type": "bridge", "bridge": "change1",
			"ipam": {"type": "host-local", "dataDir": "/run/changed", "ranges": [[{"subnet": "fd00:97::/64"}]]}}]}`)
		before := strings.TrimSpace(sandbox.Run(t, "sysctl", "-n", "net.ipv4.conf.all.route_localnet"))
		h.attach("enough1", "--primary", "changed", "--networks", "direct", "--publish", "8321:80")
		defer sandbox.Run(t, "sh", "-c", "sysctl -qw net.ipv4.conf.all.route_localnet="+before+"; ip link del change0; ip link del change1")
		sandbox.Run(t, "sh", "-ec", `sysctl -qw net.ipv4.conf.all.route_localnet=1 net.ipv4.conf.change0.route_localnet=0
			ip -n enough1 -6 route add fd00:97::/64 dev net1 metric 100; ip -n enough1 -6 route del fd00:97::/64 dev net1 metric 256`)
		serve(t, "/run/netns/enough1", ":80", "here")
		requireAnswer(t, "http://127.0.0.1:8321", "here")
		h.requireHealthy("enough1")
		sandbox.Run(t, "sysctl", "-qw", "net.ipv4.conf.all.route_localnet=0")
		h.refuse(1, []string{"net/ipv4/conf/change0/route_localnet is 0"}, "check", "enough1")
		h.must("repair", "enough1")
		h.requireHealthy("enough1")
		h.must("detach", "enough1")
	})
}
