// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/exhaustive"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// party is an end of flows: an attachment, the host, or another machine.
type party struct {
	name, job, network string
	level              isolation.Level
	bridge             string
	noHost             bool
	addresses          []netip.Addr
	*narrowing
	*endpoint
}

func (p *party) isMember() bool { return p.network != "" }

// parties are the host, a machine beside it, and attachments to networks of each kind and level.
func parties() []*party {
	all := []*party{{name: "host"}, {name: "outside"}}
	for i, n := range []struct {
		network, bridge string
		level           isolation.Level
		jobs            []string
		noHost          bool
	}{
		{"s", "br-s", isolation.Strict, []string{"web", "db", "db"}, false},
		{"n", "br-n", isolation.Network, []string{"web", "batch", "cache"}, false},
		{"o", "br-o", isolation.None, []string{"web", "batch", "plain"}, false},
		{"ps", "", isolation.Strict, []string{"db", "batch"}, false},
		{"pn", "", isolation.Network, []string{"web", "cache"}, true},
		{"po", "", isolation.None, []string{"plain", "db"}, false},
		{"h", "br-h", isolation.Strict, []string{"web", "db"}, true},
	} {
		for j, job := range n.jobs {
			all = append(all, &party{
				name: fmt.Sprintf("%s-%s%d", n.network, job, j), job: job, network: n.network, level: n.level, bridge: n.bridge, noHost: n.noHost,
				addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i + 1), 0, byte(j + 2)}), netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::%d", i+1, j+2))},
			})
		}
	}
	all[0].addresses = []netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("2001:db8:9::1")}
	all[1].addresses = []netip.Addr{netip.MustParseAddr("10.9.0.2"), netip.MustParseAddr("2001:db8:9::2")}
	return all
}

// member is the attachment of a party.
func (p *party) member(number int) filter.Member {
	m := filter.Member{
		Member: isolation.Member{ID: p.name, Network: p.network, Level: p.level, NoHost: p.noHost, Namespace: "prod", Job: p.job, Group: "g", Addresses: p.addresses, Link: p.bridge},
		End:    fmt.Sprintf("veth%08x", number), Bridge: p.bridge, MAC: net.HardwareAddr{2, 0, 0, 0, 1, byte(number)}, Antispoof: p.level != isolation.None,
	}
	if p.bridge == "" {
		m.Link = m.End
	}
	if p.narrowing != nil {
		return narrowed(m, p.ingress, p.egress)
	}
	return m
}

var (
	outsideNet = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("2001:db8:9::/64")}
	outsideOne = []netip.Prefix{netip.MustParsePrefix("10.9.0.2/32"), netip.MustParsePrefix("2001:db8:9::2/128")}
	// cacheOfPN are the addresses of the second attachment to pn.
	cacheOfPN = []netip.Prefix{netip.MustParsePrefix("10.5.0.3/32"), netip.MustParsePrefix("2001:db8:5::3/128")}
	onPort    = func(protocol string) []isolation.Ports {
		return []isolation.Ports{{Protocol: protocol, First: probePort, Last: probePort}}
	}
)

// matrixRules are those of the test. wantAllowed and wantEgress have the same, as the model reads them.
var matrixRules = isolation.Rules{
	Allow: []isolation.Allow{
		{Name: "web reaches db", From: isolation.Selector{Job: "web", Namespace: "prod"}, To: isolation.Selector{Job: "db"}, Ports: onPort("tcp")},
		{Name: "outside reaches ps", From: isolation.Selector{CIDRs: outsideNet}, To: isolation.Selector{Network: "ps"}, Ports: onPort("udp")},
		{Name: "all ping s", To: isolation.Selector{Network: "s"}, Ports: []isolation.Ports{{Protocol: "icmp"}}},
		{Name: "batch reaches one outside", From: isolation.Selector{Job: "ba*h"}, To: isolation.Selector{CIDRs: outsideOne}, Ports: onPort("udp")},
		{Name: "the host reaches h", From: isolation.Selector{Host: true}, To: isolation.Selector{Network: "h"}, Ports: onPort("udp")},
		{Name: "the host reaches an address", From: isolation.Selector{Host: true}, To: isolation.Selector{CIDRs: cacheOfPN}, Ports: onPort("tcp")},
		{Name: "another port", To: isolation.Selector{Job: "*"}, Ports: []isolation.Ports{{Protocol: "tcp", First: 1, Last: probePort - 1}, {Protocol: "udp", First: probePort + 1, Last: 65535}}},
		{Name: "another job", From: isolation.Selector{Job: "we"}, To: isolation.Selector{Namespace: "prod"}},
	},
	Egress: []isolation.Egress{
		{Name: "batch pings outside", From: isolation.Selector{Job: "batch"}, To: isolation.Selector{CIDRs: outsideNet}, Ports: []isolation.Ports{{Protocol: "icmp"}}, DNS: true},
		{Name: "batch to db and cache", From: isolation.Selector{Job: "batch"}, To: isolation.Selector{Job: "d*b"}, Ports: onPort("tcp")},
	},
}

func wantAllowed(from, to *party, protocol string) bool {
	return from.job == "web" && to.job == "db" && protocol == "tcp" ||
		(from.name == "outside" || from.name == "host") && to.network == "ps" && protocol == "udp" ||
		to.network == "s" && protocol == "icmp" ||
		from.name == "host" && to.network == "h" && protocol == "udp" ||
		from.name == "host" && to.name == "pn-cache1" && protocol == "tcp" ||
		from.job == "batch" && to.name == "outside" && protocol == "udp"
}

func wantEgress(from, to *party, protocol string) bool {
	return from.job != "batch" || !to.isMember() && protocol == "icmp" || to.job == "db" && protocol == "tcp"
}

// wanted is the model: whether a new flow to an address is let through.
func wanted(from, to *party, a netip.Addr, protocol string, isPublished bool) bool {
	if !wantLeft(from, to, a, protocol) {
		return false
	}
	if wantAllowed(from, to, protocol) {
		return true
	}
	if !wantEgress(from, to, protocol) {
		return false
	}
	if from.name == "host" && to.noHost {
		return false
	}
	if isPublished || from.name == "host" || !to.isMember() {
		return true
	}
	switch to.level {
	case isolation.Strict:
		return false
	case isolation.Network:
		return !from.isMember() || from.network == to.network
	}
	return !from.isMember() || from.level == isolation.None || from.network == to.network
}

// isApart is whether the host routes between a party and its neighbours.
func (p *party) isApart(hasEgress bool) bool {
	return p.level == isolation.Strict || p.narrowing != nil || hasEgress && p.job == "batch"
}

// flow is a case.
type flow struct {
	from, to    *party
	protocol    string
	address     netip.Addr
	isPublished bool
	port        uint16
}

func (f *flow) String() string {
	return fmt.Sprintf("%s to %s %s%d %s %t", f.from.name, f.to.name, f.protocol, f.address.BitLen(), f.address, f.isPublished)
}

// decide is what the command line would answer for a flow.
func (f *flow) decide(state filter.State) isolation.Decision {
	var members []isolation.Member
	end := func(p *party) (e isolation.End) {
		e = isolation.End{Host: p.name == "host", Address: p.addresses[0]}
		if f.address.Is6() {
			e.Address = p.addresses[1]
		}
		for _, m := range members {
			if m.ID == p.name {
				e.Link = m.Link
			}
		}
		return e
	}
	for _, m := range state.Members {
		members = append(members, m.Member)
	}
	port := uint16(probePort)
	if f.protocol == "icmp" {
		port = 0
	}
	return isolation.Decide(state.Rules, members, isolation.Flow{From: end(f.from), To: end(f.to), Protocol: f.protocol, Port: port, Published: f.isPublished})
}

// flows are all between parties.
func flows(all []*party) (cases []*flow) {
	host := all[0]
	for _, from := range all {
		for i, to := range all {
			for family := range 2 {
				for _, protocol := range []string{"tcp", "udp", "icmp"} {
					if from == to || from.name == "host" && to.name == "outside" {
						continue
					}
					cases = append(cases, &flow{from, to, protocol, to.addresses[family], false, probePort})
					direct := from.bridge != "" && from.bridge == to.bridge && !from.isApart(true) && !to.isApart(true) // the answer is not translated
					if to.isMember() && from.name != "host" && protocol != "icmp" && !direct {
						cases = append(cases, &flow{from, to, protocol, host.addresses[family], true, uint16(9000 + i)})
					}
				}
			}
		}
	}
	return cases
}

// build makes the host, and attaches all parties.
func build(t *testing.T, all []*party, state func() filter.State) (*testHost, *probes) {
	h, p := newHost(t), &probes{arrived: map[string]bool{}}
	for name, number := range map[string]int{"s": 1, "n": 2, "o": 3, "h": 7} {
		h.bridge(t, "br-"+name, fmt.Sprintf("10.%d.0.1/24", number), fmt.Sprintf("2001:db8:%d::1/64", number))
	}
	outside := newNamespace(t)
	h.in(t, h.Namespace, func() error {
		run(t, "ip", "link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", outside.Handle())
		run(t, "ip", "link", "set", "up0", "up")
		run(t, "ip", "addr", "add", "10.9.0.1/24", "dev", "up0")
		run(t, "ip", "addr", "add", "2001:db8:9::1/64", "dev", "up0", "nodad")
		rules := "table inet nat {\nchain pre {\ntype nat hook prerouting priority -100;"
		for i, to := range all {
			if to.isMember() {
				for v, a := range to.addresses {
					rules += fmt.Sprintf("\n%s daddr %s th dport %d meta l4proto {tcp, udp} dnat to %s", []string{"ip", "ip6"}[v], all[0].addresses[v], 9000+i, netip.AddrPortFrom(a, probePort))
				}
			}
		}
		run(t, "nft", rules+"\n}\n}")
		return nil
	})
	h.in(t, outside, func() error {
		run(t, "ip", "addr", "add", "10.9.0.2/24", "dev", "eth0")
		run(t, "ip", "addr", "add", "2001:db8:9::2/64", "dev", "eth0", "nodad")
		run(t, "ip", "link", "set", "eth0", "up")
		run(t, "ip", "route", "add", "default", "via", "10.9.0.1")
		run(t, "ip", "route", "add", "default", "via", "2001:db8:9::1")
		return nil
	})
	all[0].endpoint, all[1].endpoint = p.listen(t, h.Namespace), p.listen(t, outside)
	for i, a := range all[2:] {
		g4, g6 := a.addresses[0].As4(), a.addresses[1].As16()
		g4[3], g6[15] = 1, 1
		h.attach(t, a.name, a.member(i), netip.AddrFrom4(g4), netip.AddrFrom16(g6), func() (filter.State, error) { return state(), nil })
		a.endpoint = p.listen(t, h.inside[a.name])
	}
	return h, p
}

// TestRootMatrix: of all flows between attachments, the host and another machine those arrive that the model lets through, also by published
// ports. Connections that were there before the rules go on.
func TestRootMatrix(t *testing.T) {
	roottest.Require(t)
	all := narrow(parties())
	state := filter.State{Rules: isolation.Rules{Allow: []isolation.Allow{{Name: "everything"}}}}
	for i, p := range all[2:] {
		state.Members = append(state.Members, p.member(i))
	}
	h, p := build(t, all, func() filter.State { return state })
	before, writes := map[string]bool{}, map[string]func(string){}
	cases, want := exhaustive.Of(t, flows(all)), map[string]bool{}
	for _, f := range cases {
		if name := "before: " + f.String(); f.protocol == "tcp" && wantLeft(f.from, f.to, f.address, f.protocol) {
			writes[name] = f.from.connect(t, netip.AddrPortFrom(f.address, f.port), name+" 0")
			isDirect := f.from.bridge != "" && f.from.bridge == f.to.bridge && !f.from.isApart(false) && !f.to.isApart(false)
			if !isDirect || !f.from.isApart(true) && !f.to.isApart(true) || wanted(f.from, f.to, f.address, f.protocol, false) { // others are judged as new ones
				before[name] = true
			}
		}
	}
	p.require(t, before, func(round string) {
		for name := range before {
			writes[name](name + round)
		}
	})
	state.Rules = matrixRules
	h.in(t, h.Namespace, func() error {
		if err := kernel.Apply(t.Context(), source(state)); err != nil {
			return err
		}
		requireComplete(t, state)
		return nil
	})
	for _, f := range cases {
		want[f.String()] = wanted(f.from, f.to, f.address, f.protocol, f.isPublished)
		if decided := f.decide(state); decided.Allowed != want[f.String()] {
			t.Errorf("%s: isolation.Decide says %t by %d %s", f, decided.Allowed, decided.Rule, decided.By)
		}
	}
	connections := map[string]func(string){}
	p.require(t, want, func(round string) {
		for i, f := range cases {
			name, to := f.String(), netip.AddrPortFrom(f.address, f.port)
			switch {
			case f.protocol != "tcp":
				f.from.send(f.protocol, i, to, name+round)
			case connections[name] == nil:
				connections[name] = f.from.connect(t, to, name+round)
			default:
				connections[name](name + round)
			}
		}
	})
	after := map[string]bool{}
	for name := range before {
		after[name+" after"] = true
	}
	p.require(t, after, func(round string) {
		for name := range before {
			writes[name](name + " after" + round)
		}
	})
	allowed := 0
	for _, isWanted := range want {
		if isWanted {
			allowed++
		}
	}
	t.Logf("%d flows, %d of them allowed; %d connections of before", len(want), allowed, len(before))
	if least := int(exhaustive.Count(1600)); len(want) < least || allowed < least/2 || len(want)-allowed < least/2 { //nolint:gosec // it is small
		t.Errorf("%d flows, %d of them allowed: too few", len(want), allowed)
	}
}

// TestRootChangedUnderTraffic: while rules change, and all is made anew, no packet of a denied flow arrives, and a connection that is allowed
// goes on.
func TestRootChangedUnderTraffic(t *testing.T) {
	roottest.Require(t)
	all := attackers()
	state := filter.State{Rules: matrixRules}
	for i, p := range all {
		state.Members = append(state.Members, p.member(i))
	}
	h, p := build(t, append(parties()[:2], all...), func() filter.State { return state })
	web, db, other := all[0], all[1], all[2]
	write := web.connect(t, netip.AddrPortFrom(db.addresses[0], probePort), "begun 0")
	sandbox.Eventually(t, "a connection begins", func() bool { return p.has("begun 0") })
	ctx, stop := context.WithCancel(t.Context())
	var sent atomic.Int64
	var group errgroup.Group
	group.Go(func() error {
		for ; ctx.Err() == nil; sent.Add(1) {
			for _, to := range db.addresses {
				other.send("udp", 0, netip.AddrPortFrom(to, probePort), "denied")
				web.send("udp", 0, netip.AddrPortFrom(to, probePort), "denied")
			}
		}
		return nil
	})
	others := filter.State{Members: state.Members, Rules: isolation.Rules{Allow: slices.Clone(matrixRules.Allow[:1])}}
	others.Rules.Allow[0].Name = "the same with another name"
	for i := range 20 {
		before := sent.Load()
		h.in(t, h.Namespace, func() error { return kernel.Apply(t.Context(), source([]filter.State{others, state}[i%2])) })
		text := fmt.Sprintf("line %d", i)
		sandbox.Eventually(t, "the connection goes on", func() bool { write(text); return p.has(text) && sent.Load() > before+20 })
	}
	stop()
	if err := group.Wait(); err != nil || p.has("denied") {
		t.Errorf("a denied packet has arrived: %t, of %d; %v", p.has("denied"), sent.Load(), err)
	}
}
