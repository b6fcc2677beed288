// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// guarded is a network with options of the plugin firewall, and what its allocation reaches on a host that forwards nothing by itself.
type guarded struct {
	options string
	// neighbour is another allocation on its bridge, foreign one on the bridge of another network, and outside another host.
	neighbour, foreign, outside bool
}

var guards = []guarded{
	{"", true, true, true},
	{`, "ingressPolicy": "open"`, true, true, true},
	{`, "ingressPolicy": "same-bridge"`, true, false, true},
	{`, "ingressPolicy": "isolated"`, false, false, true},
	{`, "iptablesAdminChainName": "OPS-ADMIN"`, true, true, false}, // in which an operator has rules against other hosts
	{`, "backend": "iptables", "ingressPolicy": "same-bridge", "iptablesAdminChainName": "OPS-ADMIN"`, true, false, false},
}

// guardedMachine has a network for each of guards, and the network foreign, which takes nothing from other bridges with such a policy.
func guardedMachine(t *testing.T, executor, filtered string) *machine {
	t.Helper()
	m := &machine{&host{t: t, conf: t.TempDir(), plugins: t.TempDir(), state: t.TempDir()}, "guard-" + executor + filtered, "iptables", executor, nil}
	for n, g := range append(slices.Clone(guards), guarded{options: `, "ingressPolicy": "same-bridge"`}) {
		sandbox.WriteFile(t, fmt.Sprintf("%s/8%d-guard.conflist", m.conf, n), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "guard%[1]d", "plugins": [
			{"type": "bridge", "bridge": "guard%[1]d", "isDefaultGateway": true, "ipam": {"type": "host-local", "dataDir": %[2]q,
			"ranges": [[{"subnet": "10.98.%[1]d.0/24"}], [{"subnet": "fd00:98:%[1]x::/64"}]]}}, {"type": "firewall"%[3]s}]}`, n, m.state+"/leases", g.options))
	}
	for _, suffix := range []string{"", "-outside", "-foreign", "-task", "-neighbour"} {
		m.namespace(suffix)
	}
	sandbox.Run(t, "ip", "netns", "exec", m.name, "sh", "-ec", `ip link add out0 type veth peer name eth0 netns `+m.name+`-outside; ip link set out0 up
		ip address add 198.51.100.1/24 dev out0; ip address add fd00:99::1/64 dev out0
		for i in iptables ip6tables; do $i -w -P FORWARD DROP; $i -w -N OPS-ADMIN; $i -w -A OPS-ADMIN -o out0 -j DROP; done
		[ ! -d /proc/sys/net/bridge ] || sysctl -qw net.bridge.bridge-nf-call-iptables=`+filtered+` net.bridge.bridge-nf-call-ip6tables=`+filtered)
	sandbox.Run(t, "ip", "netns", "exec", m.name+"-outside", "sh", "-ec", `ip link set eth0 up; ip address add 198.51.100.2/24 dev eth0
		ip address add fd00:99::2/64 dev eth0; ip route add default via 198.51.100.1; ip -6 route add default via fd00:99::1`)
	for _, suffix := range []string{"", "-outside", "-foreign", "-task", "-neighbour"} {
		tellAddress(t, "/run/netns/"+m.name+suffix, ":80", net.Conn.LocalAddr)
	}
	return m
}

// TestFirewallByPackets: each option of firewall has the same effect on packets of both families whatever executes the network, and
// whether bridged packets passed iptables when it was attached. Nothing comes in from outside but answers.
func TestFirewallByPackets(t *testing.T) {
	for _, filtered := range []string{"0", "1"} {
		for _, executor := range []string{"auto", "plugins"} {
			t.Run(executor+", bridged packets filtered "+filtered, func(t *testing.T) {
				t.Parallel()
				m := guardedMachine(t, executor, filtered)
				m.must("attach", "foreign", len(guards))
				for n, g := range guards {
					m.requireGuarded(n, g, filtered == "1")
				}
			})
		}
	}
}

// must runs a verb for an allocation on a guarded network.
func (m *machine) must(verb, allocation string, number int) {
	m.t.Helper()
	var flags []string
	if verb == "attach" {
		flags = []string{"--networks", fmt.Sprintf("guard%d@eth0", number)}
	}
	if err := m.run(verb, m.name+"-"+allocation, flags...); err != nil {
		m.t.Fatal(err)
	}
}

// addresses returns those of an allocation.
func (m *machine) addresses(allocation string) (all []netip.Addr) {
	m.t.Helper()
	err := within("/run/netns/"+m.name+"-"+allocation, func() error {
		link, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		addresses, err := link.Addrs()
		for _, a := range addresses {
			if p := netip.MustParsePrefix(a.String()); !p.Addr().IsLinkLocalUnicast() {
				all = append(all, p.Addr())
			}
		}
		return err
	})
	if err != nil || len(all) != 2 {
		m.t.Fatalf("%s has the addresses %v, %v", allocation, all, err)
	}
	return all
}

// requireGuarded attaches two allocations to a network, and requires what the first one reaches. On a bridge whose packets do not pass
// iptables nothing keeps its ports apart.
func (m *machine) requireGuarded(number int, g guarded, filtered bool) {
	m.t.Helper()
	m.must("attach", "task", number)
	m.must("attach", "neighbour", number)
	both := func(texts ...string) []netip.Addr {
		return []netip.Addr{netip.MustParseAddr(texts[0]), netip.MustParseAddr(texts[1])}
	}
	host := both("198.51.100.1", "fd00:99::1")
	for _, address := range host { // the link is used, so that what does not answer is dropped
		if err := reaches("/run/netns/"+m.name+"-task", address, true); err != nil {
			m.t.Errorf("firewall%s: the host at %s: %v", g.options, address, err)
		}
	}
	var asked sync.WaitGroup
	for _, c := range []struct {
		what, from string
		to         []netip.Addr
		reached    bool
	}{
		{"its neighbour", "-task", m.addresses("neighbour"), g.neighbour || !filtered},
		{"another bridge", "-task", m.addresses("foreign"), g.foreign},
		{"another host", "-task", both("198.51.100.2", "fd00:99::2"), g.outside},
		{"it from outside", "-outside", m.addresses("task"), false},
		{"it from the host", "", m.addresses("task"), true},
	} {
		for _, address := range c.to {
			asked.Go(func() {
				if err := reaches("/run/netns/"+m.name+c.from, address, c.reached); (err == nil) != c.reached {
					m.t.Errorf("firewall%s: %s at %s: reached is %t, want %t: %v", g.options, c.what, address, !c.reached, c.reached, err)
				}
			})
		}
	}
	asked.Wait()
	m.must("check", "task", number)
	m.must("detach", "task", number)
	m.must("detach", "neighbour", number)
}

// reaches returns nil if port 80 of an address is reached from a namespace. It waits long only for what is wanted.
func reaches(path string, to netip.Addr, wanted bool) error {
	limit := 300 * time.Millisecond
	if wanted {
		limit = patience
	}
	return within(path, func() error {
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(to, 80).String(), limit)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}
