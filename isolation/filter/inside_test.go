// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// link has machines, of which all reach each other, as those with macvlan on one master do.
type link struct {
	*testHost

	all []*party
	// number tells the MACs of parties from one another.
	number int
}

func newLink(t *testing.T) *link {
	t.Helper()
	l := &link{testHost: newHost(t)}
	l.bridge(t, "switch")
	return l
}

// add adds a machine to the link, by an interface net1.
func (l *link) add(t *testing.T, p *party) *netns.Namespace {
	t.Helper()
	n := newNamespace(t)
	l.inside[p.name], l.all = n, append(l.all, p)
	l.number++
	l.in(t, n, func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0)
	})
	l.in(t, l.Namespace, func() error {
		end := fmt.Sprintf("port%d", l.number)
		run(t, "ip", "link", "add", end, "master", "switch", "type", "veth", "peer", "name", "net1", "address", l.member(p).MAC.String(), "netns", n.Handle())
		run(t, "ip", "link", "set", end, "up")
		return nil
	})
	return n
}

// up gives a machine its addresses.
func (l *link) up(t *testing.T, p *party) {
	t.Helper()
	l.in(t, l.inside[p.name], func() error {
		for i, a := range p.addresses {
			run(t, "ip", "addr", "add", fmt.Sprintf("%s/%d", a, []int{8, 32}[i]), "dev", "net1", "nodad")
		}
		run(t, "ip", "link", "set", "net1", "up")
		run(t, "ip", "link", "set", "lo", "up")
		return nil
	})
}

// member is a party that is kept apart inside.
func (l *link) member(p *party) filter.Member {
	m := p.member(slices.Index(l.all, p))
	m.Link, m.Bridge, m.End, m.Inside = "", "", "net1", true
	return m
}

// state is all that is known.
func (l *link) state(rules isolation.Rules) filter.State {
	s := filter.State{Rules: rules}
	for _, p := range l.all {
		if p.isMember() {
			s.Members = append(s.Members, l.member(p))
		}
	}
	return s
}

// of is what the namespace of a party has to have.
func (l *link) of(p *party, rules isolation.Rules) filter.Inside {
	s := filter.Inside{Rules: rules}
	for _, m := range l.state(rules).Members {
		if m.ID == p.name {
			s.Own = append(s.Own, m)
		} else {
			s.Others = append(s.Others, m)
		}
	}
	return s
}

func (l *link) apply(t *testing.T, rules isolation.Rules) {
	t.Helper()
	for _, p := range l.all {
		if !p.isMember() {
			continue
		}
		s := l.of(p, rules)
		err := kernel.ApplyInside(t.Context(), l.inside[p.name], s)
		lacks, errLacks := kernel.LacksInside(t.Context(), l.inside[p.name], s)
		if err := errors.Join(err, errLacks); err != nil || len(lacks) > 0 {
			t.Fatalf("%s: %v, lacking %v", p.name, err, lacks)
		}
	}
}

// linkParties are attachments of each level on one link, and a machine that is none.
func linkParties() (all []*party) {
	for _, p := range parties() {
		if p.name != "host" && !p.noHost && (p.bridge != "" || p.name == "outside") {
			p.bridge = ""
			all = append(all, p)
		}
	}
	return narrow(all)
}

// TestRootInsideMatrix: namespaces whose attachments have no end on the host let pass what isolation.Decide says, and a model that is written independently of both.
func TestRootInsideMatrix(t *testing.T) {
	roottest.Require(t)
	l, p := newLink(t), &probes{arrived: map[string]bool{}}
	all := linkParties()
	for _, one := range all {
		l.add(t, one)
	}
	rules := isolation.Rules{Egress: matrixRules.Egress, Allow: slices.Concat([]isolation.Allow{
		{Name: "what the host sends", From: isolation.Selector{Host: true}, To: isolation.Selector{CIDRs: slices.Concat(outsideNet, cidrs("10.0.0.0/8"))}},
		{Name: "what the host sends to all", From: isolation.Selector{Host: true}, To: isolation.Selector{Network: "*"}},
	}, matrixRules.Allow)}
	l.apply(t, rules)
	for _, one := range all {
		l.up(t, one)
		one.endpoint = p.listen(t, l.inside[one.name])
	}
	var cases []*flow
	want := map[string]bool{}
	for _, from := range all {
		for _, to := range all {
			for _, protocol := range []string{"tcp", "udp", "icmp"} {
				for _, a := range to.addresses {
					if from != to {
						f := &flow{from, to, protocol, a, false, probePort}
						cases = append(cases, f)
						want[f.String()] = wanted(from, to, a, protocol, false)
						if d := f.decide(l.state(rules)); d.Allowed != want[f.String()] {
							t.Errorf("%s: isolation.Decide says %t by %d %s", f, d.Allowed, d.Rule, d.By)
						}
					}
				}
			}
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
	allowed := 0
	for _, isWanted := range want {
		if isWanted {
			allowed++
		}
	}
	t.Logf("%d flows, %d of them allowed", len(want), allowed)
	if allowed < 50 || len(want)-allowed < 50 {
		t.Errorf("%d flows, %d of them allowed: too few", len(want), allowed)
	}
	counts, err := kernel.DeniedInside(t.Context(), l.inside["s-db1"])
	if err != nil || counts["s-db1"].Packets == 0 || len(counts) != 1 {
		t.Errorf("denied is %v, %v", counts, err)
	}
}

// TestRootInsideSenders: nothing passes by an interface whose addresses are not known yet, nor from another address than its own, nor to all of a link
// with the level strict, nor to an address of another interface.
func TestRootInsideSenders(t *testing.T) {
	roottest.Require(t)
	l, p, others := newLink(t), &probes{arrived: map[string]bool{}}, &probes{arrived: map[string]bool{}}
	at := func(number byte) []netip.Addr {
		return []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 0, number}), netip.MustParseAddr(fmt.Sprintf("2001:db8:1::%d", number))}
	}
	apart := &party{name: "apart", job: "web", network: "s", level: isolation.Strict, addresses: at(2)}
	other := &party{name: "other", addresses: at(3)}
	l.add(t, apart)
	l.add(t, other)
	closed := l.of(apart, isolation.Rules{})
	closed.Own[0].MAC, closed.Own[0].Addresses = nil, nil
	if err := kernel.ApplyInside(t.Context(), l.inside["apart"], closed); err != nil {
		t.Fatal(err)
	}
	if lacks, err := kernel.LacksInside(t.Context(), l.inside["apart"], closed); err != nil || len(lacks) > 0 {
		t.Errorf("lacking is %v, %v", lacks, err)
	}
	const elsewhere = "10.66.0.1"
	for _, one := range l.all {
		l.up(t, one)
		l.in(t, l.inside[one.name], func() error {
			if one == apart {
				run(t, "ip", "addr", "add", elsewhere+"/32", "dev", "lo")
				run(t, "ip", "addr", "add", "10.1.0.99/32", "dev", "net1") // that of another one
			} else {
				run(t, "ip", "route", "add", elsewhere, "via", "10.1.0.2")
			}
			return nil
		})
	}
	apart.endpoint, other.endpoint = p.listen(t, l.inside["apart"]), others.listen(t, l.inside["other"])
	number := 0
	send := func(from, to *party, a netip.Addr, text string) {
		number++
		for _, protocol := range []string{"udp", "icmp"} {
			from.send(protocol, number, netip.AddrPortFrom(a, probePort), protocol+" "+text)
		}
	}
	// sentFrom sends a packet from an address of the namespace of a party.
	sentFrom := func(one *party, address, to, text string) {
		_ = l.inside[one.name].Do(func() error {
			conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address+":0")), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to)))
			if err == nil {
				_, _ = conn.Write([]byte(text))
				err = conn.Close()
			}
			return err
		})
	}
	for v := range 2 {
		for range 3 {
			send(apart, other, other.addresses[v], "closed")
			send(other, apart, apart.addresses[v], "closed")
		}
	}
	l.apply(t, isolation.Rules{})
	sandbox.Eventually(t, "what it sends passes", func() bool {
		for v := range 2 {
			send(other, apart, apart.addresses[v], "to a strict one")
			send(other, apart, netip.MustParseAddr([]string{"10.255.255.255", "ff02::1%net1"}[v]), "to all")
			sentFrom(apart, "10.1.0.99", fmt.Sprintf("%s:%d", other.addresses[0], probePort), "forged")
			sentFrom(other, other.addresses[0].String(), fmt.Sprintf("%s:%d", elsewhere, probePort), "to another interface")
			send(apart, other, other.addresses[v], fmt.Sprint("open ", v))
		}
		return others.has("udp open 0") && others.has("udp open 1") && others.has("icmp open 0") && others.has("icmp open 1")
	})
	for _, text := range []string{"udp closed", "icmp closed", "udp to a strict one", "icmp to a strict one", "udp to all", "icmp to all", "forged", "to another interface"} {
		if p.has(text) || others.has(text) && !strings.Contains(text, "to all") { // which comes back
			t.Errorf("%s has arrived", text)
		}
	}
	counts, err := kernel.DeniedInside(t.Context(), l.inside["apart"])
	if d := counts["apart"]; err != nil || d.Packets == 0 || d.Forged == 0 {
		t.Errorf("denied is %v, %v", counts, err)
	}
	opened := isolation.Rules{Allow: []isolation.Allow{{Name: "all", To: isolation.Selector{CIDRs: cidrs(elsewhere+"/32", "10.1.0.2/32")}}}}
	l.apply(t, opened)
	sandbox.Eventually(t, "a rule to an address holds", func() bool {
		sentFrom(other, other.addresses[0].String(), fmt.Sprintf("%s:%d", elsewhere, probePort), "allowed elsewhere")
		sentFrom(other, other.addresses[0].String(), fmt.Sprintf("10.1.0.2:%d", probePort), "allowed here")
		return p.has("allowed elsewhere") && p.has("allowed here")
	})
}

// TestRootInsideRemoved: a namespace loses what it has of an attachment alone, also of one that it does not know, and its tables with its own last one. Each
// damage is noticed, and made again.
func TestRootInsideRemoved(t *testing.T) {
	roottest.Require(t)
	n := newNamespace(t)
	state := mixed()
	first, second := state.Members[0], state.Members[3]
	for i, m := range []*filter.Member{&first, &second} {
		m.Inside, m.Link, m.Bridge, m.End = true, "", "", fmt.Sprint("net", i)
	}
	all := filter.Inside{Rules: state.Rules, Own: []filter.Member{first, second}, Others: slices.Concat(state.Members[1:3], state.Members[4:])}
	tables := func() (text string) {
		if err := n.Do(func() error { text = listTables(t); return nil }); err != nil {
			t.Fatal(err)
		}
		return strings.Join(slices.Sorted(strings.Lines(text)), "")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	requireComplete := func(s filter.Inside) {
		t.Helper()
		if lacks, err := kernel.LacksInside(t.Context(), n, s); err != nil || len(lacks) > 0 {
			t.Errorf("lacking is %v, %v", lacks, err)
		}
	}
	must(kernel.RemoveInside(t.Context(), n, first))
	must(kernel.ApplyInside(t.Context(), n, all))
	requireComplete(all)
	before := tables()
	must(kernel.ApplyInside(t.Context(), n, all))
	if tables() != before {
		t.Error("a repetition has changed the tables")
	}
	for _, damage := range []string{
		"nft flush ruleset", "nft delete table inet allocnet-isolation", "nft delete table inet allocnet-isolation-out", "nft flush chain inet allocnet-isolation prerouting",
		"nft flush set inet allocnet-isolation-out guarded", "nft flush set inet allocnet-isolation members4", "nft flush map inet allocnet-isolation-out level6", "nft flush set inet allocnet-isolation here4",
		"nft add table inet allocnet-isolation-out { flags dormant; }",
	} {
		must(n.Do(func() error { run(t, strings.Fields(damage)...); return nil }))
		if lacks, err := kernel.LacksInside(t.Context(), n, all); err != nil || len(lacks) != 2 {
			t.Errorf("%s is not noticed: %v, %v", damage, lacks, err)
		}
		must(kernel.ApplyInside(t.Context(), n, all))
		if tables() != before {
			t.Errorf("%s: what was made again differs", damage)
		}
	}
	left := all
	left.Others = all.Others[1:]
	for range 2 {
		must(kernel.RemoveInside(t.Context(), n, all.Others[0]))
	}
	requireComplete(left)
	if text := tables(); strings.Contains(text, all.Others[0].ID+`"`) || !strings.Contains(text, left.Others[0].ID+`"`) {
		t.Errorf("known is\n%s", text)
	}
	left.Own = left.Own[1:]
	for range 2 {
		must(kernel.RemoveInside(t.Context(), n, first))
	}
	requireComplete(left)
	must(kernel.RemoveInside(t.Context(), n, filter.Member{Member: isolation.Member{ID: second.ID}}))
	if text := tables(); text != "" {
		t.Errorf("left is %s", text)
	}
	must(kernel.ApplyInside(t.Context(), n, all))
	must(kernel.ApplyInside(t.Context(), n, filter.Inside{Rules: state.Rules, Others: all.Others}))
	if text := tables(); text != "" {
		t.Errorf("without attachments of its own it has %s", text)
	}
}

// TestRootInsideEnds: nothing keeps a namespace in which attachments are kept apart, by a connection that a detach would not find.
func TestRootInsideEnds(t *testing.T) {
	roottest.Require(t)
	n, m := newNamespace(t), member(1, "web", "s", isolation.Strict, "")
	all := filter.Inside{Own: []filter.Member{m}}
	for name, call := range map[string]func() error{
		"apply":  func() error { return kernel.ApplyInside(t.Context(), n, all) },
		"lacks":  func() error { _, err := kernel.LacksInside(t.Context(), n, all); return err },
		"denied": func() error { _, err := kernel.DeniedInside(t.Context(), n); return err },
		"remove": func() error { return kernel.RemoveInside(t.Context(), n, m) },
	} {
		err := errors.Join(call(), n.Do(func() error {
			open, err := os.ReadFile("/proc/thread-self/net/netlink")
			for line := range strings.Lines(string(open)) {
				if of := strings.Fields(line); of[1] == strconv.Itoa(unix.NETLINK_NETFILTER) && of[2] != "0" { // the kernel's own is 0
					t.Errorf("%s: a connection is left: %s", name, line)
				}
			}
			return err
		}))
		if err != nil {
			t.Error(name, err)
		}
	}
}
