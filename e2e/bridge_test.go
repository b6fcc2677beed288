// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// pluginLink matches the names of links that CNI plugins choose: the host's ends of pairs, and devices for limits.
var pluginLink = regexp.MustCompile(`^(veth[0-9a-f]{8}|bwp.{12})$`)

// TestLinksHaveMACsOfTheirOwn: udev replaces the MACs of links that the kernel has chosen. By group or name the rules of
// dist/udev know the links.
func TestLinksHaveMACsOfTheirOwn(t *testing.T) {
	const set = "3" // NET_ADDR_SET of the kernel
	h := newHost(t)
	h.withoutPlugins()
	sandbox.WriteFile(t, h.conf+"/60-own.conflist", `{"cniVersion": "1.0.0", "name": "own", "plugins": [
		{"type": "bridge", "bridge": "own0", "isGateway": true, "ipam": {"type": "host-local", "dataDir": "/run/bridges", "subnet": "10.97.0.0/24"}},
		{"type": "bandwidth", "ingressRate": 1000000, "ingressBurst": 1000000, "egressRate": 1000000, "egressBurst": 1000000}]}`)
	sandbox.WriteFile(t, h.conf+"/60-plain.conflist", `{"cniVersion": "1.0.0", "name": "plain", "plugins": [{"type": "bridge", "bridge": "plain0"}]}`)
	sandbox.WriteFile(t, h.conf+"/60-point.conflist", `{"cniVersion": "1.0.0", "name": "point", "plugins": [
		{"type": "ptp", "ipam": {"type": "host-local", "dataDir": "/run/bridges", "subnet": "10.98.0.0/24"}}]}`)
	before := links(t)
	h.attach("m1", "--primary", "own", "--networks", "plain,point,vlan")
	made := 0
	for link := range links(t) {
		if before[link] {
			continue
		}
		made++
		got, err := os.ReadFile("/sys/class/net/" + link + "/addr_assign_type")
		if err != nil || strings.TrimSpace(string(got)) != set {
			t.Errorf("addr_assign_type of %s is %q, %v: want %s", link, got, err, set)
		}
		group, err := os.ReadFile("/sys/class/net/" + link + "/netdev_group")
		if err != nil || strings.TrimSpace(string(group)) != fmt.Sprint(netns.LinkGroup) && !pluginLink.MatchString(link) {
			t.Errorf("the group of %s is %q, %v", link, group, err)
		}
	}
	if made < 6 { // two bridges, three ends of pairs, a device for limits
		t.Errorf("%d links were made", made)
	}
	inside := sandbox.Run(t, "ip", "netns", "exec", "m1", "sh", "-c", "cat /sys/class/net/eth0/addr_assign_type /sys/class/net/net[123]/addr_assign_type")
	if strings.Join(strings.Fields(inside), " ") != "3 3 3 3" {
		t.Errorf("inside: %s", inside)
	}
	h.must("detach", "m1")
	_ = os.RemoveAll("/run/bridges")
	for _, bridge := range []string{"own0", "plain0"} {
		sandbox.Run(t, "ip", "link", "del", bridge)
	}
}

// links returns the names of the host's links.
func links(t *testing.T) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names
}

// TestOperatorsBridge: a bridge that was there stays as it is, with and without ports of its own, whatever executes the network.
func TestOperatorsBridge(t *testing.T) {
	const port = "ip link add up7 address f6:00:00:00:00:01 mtu 1600 type veth peer name wire7 && ip link set up7 master br7 && ip link set up7 up && ip link set wire7 up"
	for name, test := range map[string]struct {
		executor, port, addresses string
	}{
		"with a port":             {"auto", port, "10.99.0.1/24 192.0.2.7/24"},
		"without a port":          {"auto", "true", "10.99.0.1/24 192.0.2.7/24"},
		"plugins, with a port":    {"plugins", port, "10.97.0.1/24"}, // the plugin refuses another address
		"plugins, without a port": {"plugins", "true", "10.97.0.1/24"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			t.Setenv("ALLOCNET_EXECUTOR", test.executor)
			sandbox.WriteFile(t, h.conf+"/60-lan.conflist", `{"cniVersion": "1.0.0", "name": "lan", "plugins": [{"type": "bridge", "bridge": "br7", "isGateway": true,
				"mtu": 1400, "ipam": {"type": "host-local", "dataDir": "/run/bridges", "subnet": "10.97.0.0/24"}}]}`)
			sandbox.Run(t, "sh", "-c", "ip link add br7 mtu 1600 type bridge && ip link set br7 up && "+test.port+
				" && for a in "+test.addresses+"; do ip addr add $a dev br7; done && sysctl -qw net.ipv6.conf.br7.accept_ra=2")
			defer sandbox.Run(t, "sh", "-c", "rm -r /run/bridges; ip link del br7; ip link del up7 || true")
			picture := func() string {
				return sandbox.Run(t, "sh", "-c", "ip -o link show br7 | grep -o 'mtu [0-9]*'; cat /sys/class/net/br7/address /proc/sys/net/ipv6/conf/br7/accept_ra; ip -o -4 addr show br7 | grep -v 10.97.0.1/24 | cut -c1-40")
			}
			before := picture()
			for _, id := range []string{"b1", "b2", "b3"} {
				h.attach(id, "--primary", "lan")
				if after := picture(); after != before {
					t.Fatalf("with %s the bridge has become\n%s\nfrom\n%s", id, after, before)
				}
			}
			for _, id := range []string{"b1", "b2", "b3"} {
				h.must("check", id)
				h.must("detach", id)
				if after := picture(); after != before {
					t.Fatalf("without %s the bridge has become\n%s\nfrom\n%s", id, after, before)
				}
			}
		})
	}
}

// TestOperatorsAddress: forceAddress removes no address of a bridge, whether an operator has added it or other attachments have it
// as their gateway.
func TestOperatorsAddress(t *testing.T) {
	eachExecutor(t, func(t *testing.T, h *host) {
		network := func(gateway string) {
			sandbox.WriteFile(t, h.conf+"/60-forced.conflist", `{"cniVersion": "1.0.0", "name": "forced", "plugins": [{"type": "bridge", "bridge": "br8", "isGateway": true,
				"forceAddress": true, "ipam": {"type": "host-local", "dataDir": "/run/bridges", "subnet": "10.97.0.0/24", "gateway": "`+gateway+`"}}]}`)
		}
		sandbox.Run(t, "sh", "-ec", "ip link add br8 type bridge; ip link set br8 up; ip addr add 10.97.0.9/24 dev br8")
		defer sandbox.Run(t, "sh", "-c", "rm -r /run/bridges; ip link del br8")
		refused := func(id, gateway, other string) {
			network(gateway)
			h.refuse(1, []string{"forceAddress removes none", "ip address del ADDRESS dev br8"}, "attach", id, "--primary", "forced")
			if addresses := sandbox.Run(t, "ip", "-o", "-4", "addr", "show", "dev", "br8"); strings.Count(addresses, "inet ") != 1 || !strings.Contains(addresses, other) {
				t.Errorf("the bridge has the addresses\n%s", addresses)
			}
		}
		refused("forced1", "10.97.0.1", "10.97.0.9/24")
		sandbox.Run(t, "ip", "addr", "del", "10.97.0.9/24", "dev", "br8")
		network("10.97.0.1")
		h.attach("forced1", "--primary", "forced")
		refused("forced2", "10.97.0.254", "10.97.0.1/24")
		h.must("check", "forced1")
		h.must("detach", "forced1")
	})
}
