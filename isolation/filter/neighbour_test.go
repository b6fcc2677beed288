// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// knowForever has neighbours on a bridge know each other's MAC, and never ask for it again.
func knowForever(t *testing.T, h *testHost, members []filter.Member) {
	t.Helper()
	for _, m := range members {
		h.in(t, h.inside[m.ID], func() error {
			for _, other := range members {
				for _, a := range other.Addresses {
					if other.ID != m.ID {
						run(t, "ip", "neigh", "replace", a.String(), "lladdr", other.MAC.String(), "dev", "eth0", "nud", "permanent")
					}
				}
			}
			return nil
		})
	}
}

// TestRootFormerNeighbours: a connection between neighbours that come to be apart, both or one of them, and that rules allow, goes on though both
// send to the MAC by which they knew each other, also after the tables were removed. New flows are decided as all others.
func TestRootFormerNeighbours(t *testing.T) {
	roottest.Require(t)
	allow := isolation.Rules{Allow: []isolation.Allow{{Name: "web reaches db", From: isolation.Selector{Job: "web"}, To: isolation.Selector{Job: "db"}, Ports: onPort("tcp")}}}
	egress := isolation.Rules{Egress: []isolation.Egress{{Name: "web to db", From: isolation.Selector{Job: "web"}, To: isolation.Selector{Job: "db"}, Ports: onPort("tcp")}}}
	for name, test := range map[string]struct {
		level isolation.Level
		rules isolation.Rules
		// denied are those between which no datagram passes.
		denied [][2]string
	}{
		"level":  {isolation.Strict, allow, [][2]string{{"web", "db"}, {"db", "web"}, {"db", "other"}, {"other", "db"}}},
		"egress": {isolation.None, egress, [][2]string{{"web", "db"}, {"web", "other"}}},
	} {
		for _, isFiltered := range []string{"0", "1"} {
			t.Run(name+" "+isFiltered, func(t *testing.T) { formerNeighbours(t, test.level, test.rules, test.denied, isFiltered) })
		}
	}
}

func formerNeighbours(t *testing.T, level isolation.Level, rules isolation.Rules, denied [][2]string, isFiltered string) {
	h, p := newHost(t), &probes{arrived: map[string]bool{}}
	h.bridge(t, "br-s", "10.1.0.1/24", "2001:db8:1::1/64")
	h.in(t, h.Namespace, func() error {
		for _, key := range []string{"iptables", "ip6tables"} { // whether rules of IP see what the bridge forwards
			_ = os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-"+key, []byte(isFiltered), 0) // not on each host
		}
		return nil
	})
	state, at := filter.State{}, map[string]*party{}
	for i, job := range []string{"web", "db", "other"} {
		a := &party{name: job, job: job, network: "s", level: isolation.None, bridge: "br-s", addresses: []netip.Addr{
			netip.AddrFrom4([4]byte{10, 1, 0, byte(i + 2)}), netip.MustParseAddr(fmt.Sprintf("2001:db8:1::%d", i+2)),
		}}
		m := a.member(i)
		state.Members, at[job] = append(state.Members, m), a
		h.attach(t, job, m, netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("2001:db8:1::1"), func() (filter.State, error) { return state, nil })
		a.endpoint = p.listen(t, h.inside[job])
	}
	knowForever(t, h, state.Members)
	write := map[string]func(string){}
	goesOn := func(round string) {
		t.Helper()
		sandbox.Eventually(t, "connections go on "+round, func() bool {
			all := true
			for _, a := range at["db"].addresses {
				text := fmt.Sprintf("line %s %s", a, round)
				write[a.String()](text)
				all = p.has(text) && all
			}
			return all
		})
	}
	for _, a := range at["db"].addresses {
		write[a.String()] = at["web"].connect(t, netip.AddrPortFrom(a, probePort), "begun")
	}
	goesOn("before")
	apart := filter.State{Rules: rules}
	for _, m := range state.Members {
		m.Level, m.Antispoof = level, level != isolation.None
		apart.Members = append(apart.Members, m)
	}
	for _, round := range []string{"kept apart", "again"} {
		h.in(t, h.Namespace, func() error { return kernel.Apply(t.Context(), source(apart)) })
		goesOn(round)
		h.in(t, h.Namespace, func() error { requireComplete(t, apart); run(t, "nft", "flush", "ruleset"); return nil })
		goesOn("without tables, after " + round)
	}
	h.in(t, h.Namespace, func() error { return kernel.Apply(t.Context(), source(apart)) })
	want, flows := map[string]bool{}, map[string]func(string){}
	for i, f := range denied {
		for v, a := range at[f[1]].addresses {
			name := fmt.Sprintf("%s to %s by %d", f[0], f[1], v)
			want[name], flows[name] = false, func(round string) {
				at[f[0]].send("udp", i, netip.AddrPortFrom(a, probePort), name+round)
			}
		}
	}
	for v, a := range at["db"].addresses {
		name := fmt.Sprintf("a new connection by %d", v)
		var begun func(string)
		want[name], flows[name] = true, func(round string) {
			if begun == nil {
				begun = at["web"].connect(t, netip.AddrPortFrom(a, probePort), name+round)
			}
			begun(name + round)
		}
	}
	p.require(t, want, func(round string) {
		for _, send := range flows {
			send(round)
		}
	})
}

// TestRootBridgeGetsAnotherMAC: a bridge that gets another MAC is noticed, and repaired; one that is gone keeps nothing from being made, or from being
// removed.
func TestRootBridgeGetsAnotherMAC(t *testing.T) {
	roottest.Require(t)
	state := mixed()
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		if err := kernel.Apply(t.Context(), source(state)); err != nil {
			return err
		}
		run(t, "ip", "link", "set", "br1", "address", "02:00:00:00:00:99")
		lacks, err := kernel.Lacks(t.Context(), state)
		if err != nil || len(lacks) != 2 || !strings.Contains(fmt.Sprint(lacks["id-3"]), "gateways") {
			t.Errorf("missing is %v, %v, want what leads to br1, of two", lacks, err)
		}
		if err := kernel.Apply(t.Context(), source(state)); err != nil {
			return err
		}
		requireComplete(t, state)
		if found := run(t, "nft", "list", "map", "bridge", "allocnet-isolation", "gateways"); strings.Count(found, "02:00:00:00:00:99") != 2 {
			t.Errorf("the gateways are %s", found)
		}
		run(t, "ip", "link", "del", "br2") // no attachment to it is strict
		for _, m := range state.Members {
			if err := kernel.Remove(t.Context(), lazily(state.Rules), m); err != nil {
				return err
			}
		}
		if left := listTables(t); left != "" {
			t.Errorf("left is %s", left)
		}
		return nil
	})
}
