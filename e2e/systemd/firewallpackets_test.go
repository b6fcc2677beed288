// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox/stream"
)

// zoned is a network with options of the plugin firewall, and what its allocation reaches on a machine whose firewalld rejects what no
// zone lets through: "n", another allocation on its bridge, "f", one on the bridge of another network, "o", another host, "h", the machine;
// and from where it is reached: "i" from the other host, "m" from the machine.
type zoned struct{ options, reached string }

// firewalldZones are networks with each zone: open and trusted let all through, shut drops all, and ports lets its sources
// reach port 80 of the machine alone. The last network takes nothing from other bridges with a policy.
var firewalldZones = []zoned{
	{"", "nfohm"},
	{`, "backend": "firewalld"`, "nfohm"},
	{`, "backend": "firewalld", "firewalldZone": "open"`, "nfohm"},
	{`, "backend": "firewalld", "firewalldZone": "shut"`, "m"},
	{`, "firewalldZone": "ports"`, "hm"},
	{`, "ingressPolicy": "same-bridge"`, "nohm"},
	{`, "backend": "firewalld", "ingressPolicy": "isolated"`, "ohm"},
}

// TestLongFirewalldByPackets: each option of firewall has the same effect on packets of both families whatever executes the network, and
// leaves no source.
func TestLongFirewalldByPackets(t *testing.T) {
	m := bootWithout(t, networkManager)
	m.awaitFirewalld()
	m.must("sh", "-ec", `sysctl -qw net.ipv6.conf.default.accept_dad=0; ip netns add outside; ip link add uplink type veth peer name eth0 netns outside; ip link set uplink up
ip address add 192.0.2.1/24 dev uplink; ip address add fd00:99::1/64 dev uplink nodad; ip -n outside link set lo up; ip -n outside link set eth0 up
ip -n outside address add 192.0.2.2/24 dev eth0; ip -n outside address add fd00:99::2/64 dev eth0 nodad
ip -n outside route add default via 192.0.2.1; ip -n outside -6 route add default via fd00:99::1
[ ! -d /proc/sys/net/bridge ] || sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1
for zone in open:ACCEPT shut:DROP; do firewall-cmd -q --permanent --new-zone=${zone%:*}; firewall-cmd -q --permanent --zone=${zone%:*} --set-target=${zone#*:}; done
firewall-cmd -q --permanent --new-zone=ports; firewall-cmd -q --permanent --zone=ports --add-port=80/tcp
firewall-cmd -q --permanent --zone=ports --remove-forward; firewall-cmd -q --reload`)
	stream.Listen(m, m.namespace("outside"), ":80")
	stream.Listen(m, fmt.Sprintf("/proc/%d/ns/net", m.leader), ":80")
	for n, z := range append(slices.Clone(firewalldZones), zoned{options: `, "ingressPolicy": "same-bridge"`}) {
		m.write(fmt.Sprintf("/opt/cni/config/8%d-zoned.conflist", n), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "zoned%[1]d", "plugins": [
			{"type": "bridge", "bridge": "zoned%[1]d", "isDefaultGateway": true, "ipam": {"type": "host-local",
			"ranges": [[{"subnet": "10.98.%[1]d.0/24"}], [{"subnet": "fd00:98:%[1]x::/64"}]]}}, {"type": "firewall"%[2]s}]}`, n, z.options))
	}
	before := m.must("firewall-cmd", "--list-all-zones")
	for _, executor := range []string{"auto", "plugins"} {
		m.onZone(executor, "attach", "foreign", len(firewalldZones))
		stream.Listen(m, m.namespace("foreign"), ":80")
		for n, z := range firewalldZones {
			m.requireZoned(executor, n, z)
		}
		m.onZone(executor, "detach", "foreign", len(firewalldZones))
		if diff := cmp.Diff(before, m.must("firewall-cmd", "--list-all-zones")); diff != "" {
			t.Errorf("%s: zones are left (-before +after):\n%s", executor, diff)
		}
	}
	if out := m.must("allocnet", "networks", "zoned1", "--json"); !strings.Contains(out, `"executor": "in-process"`) {
		t.Errorf("zoned1 is not executed without plugins: %s", out)
	}
}

// onZone runs a verb for an allocation on a network.
func (m *machine) onZone(executor, verb, allocation string, number int) {
	m.Helper()
	words := []string{"env", "ALLOCNET_EXECUTOR=" + executor, "allocnet", verb, allocation}
	if verb == "attach" {
		words = append(words, "--primary", fmt.Sprintf("zoned%d", number))
	}
	m.must(words...)
}

// requireZoned attaches two allocations to a network, and requires what the first one reaches and from where it is reached.
func (m *machine) requireZoned(executor string, number int, z zoned) {
	m.Helper()
	m.onZone(executor, "attach", "task", number)
	m.onZone(executor, "attach", "neighbour", number)
	stream.Listen(m, m.namespace("task"), ":80")
	stream.Listen(m, m.namespace("neighbour"), ":80")
	task, machine := m.namespace("task"), fmt.Sprintf("/proc/%d/ns/net", m.leader)
	var asked sync.WaitGroup
	for what, way := range map[string]struct {
		from string
		to   []string
	}{
		"n": {task, m.globals("neighbour")}, "f": {task, m.globals("foreign")}, "o": {task, []string{"192.0.2.2", "fd00:99::2"}},
		"h": {task, []string{"192.0.2.1", "fd00:99::1"}}, "i": {m.namespace("outside"), m.globals("task")}, "m": {machine, m.globals("task")},
	} {
		for _, to := range way.to {
			asked.Go(func() {
				if wanted, err := strings.Contains(z.reached, what), dial(way.from, to, time.Second); (err == nil) != wanted {
					m.Errorf("%s, firewall%s: %s at %s: reached is %t, want %t: %v", executor, z.options, what, to, !wanted, wanted, err)
				}
			})
		}
	}
	asked.Wait()
	m.onZone(executor, "check", "task", number)
	m.onZone(executor, "detach", "task", number)
	m.onZone(executor, "detach", "neighbour", number)
}

// globals are the addresses of an allocation.
func (m *machine) globals(allocation string) (all []string) {
	m.Helper()
	for line := range strings.Lines(m.must("ip", "netns", "exec", allocation, "ip", "-o", "address", "show", "scope", "global")) {
		address, _, _ := strings.Cut(strings.Fields(line)[3], "/")
		all = append(all, address)
	}
	if len(all) != 2 {
		m.Fatalf("%s has the addresses %v", allocation, all)
	}
	return all
}

// dial returns nil if port 80 of an address is reached from a namespace.
func dial(path, to string, limit time.Duration) error {
	ns, err := netns.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	return ns.Do(func() error {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(to, "80"), limit)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}
