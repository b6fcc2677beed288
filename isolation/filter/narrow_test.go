// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// narrowing is what a job leaves, and which flows these are: by the other end and the protocol, to the port of probes.
type narrowing struct {
	ingress, egress string
	from, to        func(other *party, a netip.Addr, protocol string) bool
}

func isOutside(p *party) bool { return p.name == "outside" || p.name == "host" }

// narrowings are those of the matrix, each of the third attachment after the one before.
var narrowings = []narrowing{
	{ingress: "7000/tcp, icmp", from: func(_ *party, _ netip.Addr, protocol string) bool { return protocol != "udp" }},
	{egress: "10.9.0.0/24 2001:db8:9::/64, 6999-7000/udp", to: func(other *party, _ netip.Addr, protocol string) bool { return isOutside(other) || protocol == "udp" }},
	{ingress: "10.9.0.0/24 2001:db8:9::/64 tcp udp, 2001:db8:3::/64 icmp", from: func(other *party, a netip.Addr, protocol string) bool {
		return isOutside(other) && protocol != "icmp" || other.network == "o" && a.Is6() && protocol == "icmp"
	}},
	{egress: "dns, 10.0.0.0/8 7000/tcp udp", ingress: "::/0", to: func(_ *party, a netip.Addr, protocol string) bool { return a.Is4() && protocol != "icmp" },
		from: func(_ *party, a netip.Addr, _ string) bool { return a.Is6() }},
	{ingress: "none", egress: "none", from: func(*party, netip.Addr, string) bool { return false }, to: func(*party, netip.Addr, string) bool { return false }},
}

// narrow has the jobs of some attachments narrow their traffic.
func narrow(all []*party) []*party {
	number := 0
	for i, p := range slices.DeleteFunc(slices.Clone(all), func(p *party) bool { return !p.isMember() }) {
		if i%3 == 2 {
			p.narrowing = &narrowings[number%len(narrowings)]
			number++
		}
	}
	return all
}

// left reads what a job leaves; nil without a text.
func left(text string, parse func(string) (isolation.Narrowing, error)) isolation.Narrowing {
	if text == "" {
		return nil
	}
	n, err := parse(text)
	if err != nil {
		panic(err)
	}
	return n
}

// narrowed is a member whose job leaves less.
func narrowed(m filter.Member, ingress, egress string) filter.Member {
	m.Ingress, m.Egress = left(ingress, isolation.ParseIngress), left(egress, isolation.ParseEgress)
	return m
}

// wantLeft is the model: whether the jobs of both ends leave a flow to an address. What comes from the host all leave.
func wantLeft(from, to *party, a netip.Addr, protocol string) bool {
	if n := from.narrowing; n != nil && n.to != nil && !n.to(to, a, protocol) {
		return false
	}
	n := to.narrowing
	return n == nil || n.from == nil || from.name == "host" || n.from(from, a, protocol)
}

// TestRootNarrowed: a job that narrows its traffic makes the tables also where nothing else does, attachments of other narrowings come and go beside
// it, and the last one that needs them takes them along.
func TestRootNarrowed(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		one, two := narrowed(member(1, "web", "o", isolation.None, "br0"), "5432/tcp, 10.0.0.0/8 fd00::/8 icmp", ""), narrowed(member(2, "db", "p", isolation.None, ""), "", "dns, 192.0.2.0/24")
		three, plain := narrowed(member(3, "web", "o", isolation.None, "br0"), "5432/tcp, 10.0.0.0/8 fd00::/8 icmp", "none"), member(4, "web", "o", isolation.None, "br0")
		var state filter.State
		add := func(m filter.Member) error {
			state.Members = append(state.Members, m)
			err := errors.Join(admit(t, state.Rules, m, source(state)), admit(t, state.Rules, m, source(state)))
			requireComplete(t, state)
			return err
		}
		remove := func(m filter.Member) error {
			state.Members = slices.DeleteFunc(state.Members, func(o filter.Member) bool { return o.ID == m.ID })
			err := errors.Join(kernel.Remove(t.Context(), lazily(state.Rules), m), kernel.Remove(t.Context(), lazily(state.Rules), m))
			requireComplete(t, state)
			return err
		}
		err := errors.Join(add(two), add(one), add(plain), add(three))
		whole := listTables(t)
		err = errors.Join(err, kernel.Apply(t.Context(), source(state)))
		if again := listTables(t); again != whole {
			t.Errorf("added one after another:\n%s\nall at once:\n%s", whole, again)
		}
		err = errors.Join(err, remove(one), remove(three), kernel.Apply(t.Context(), source(state))) // the chains of these are gone
		if lacks, failed := kernel.Lacks(t.Context(), filter.State{Members: []filter.Member{narrowed(two, "", "dns")}}); failed != nil || len(lacks[two.ID]) == 0 {
			t.Errorf("another narrowing lacks %v, %v", lacks, failed)
		}
		err = errors.Join(err, remove(two))
		requireNothing(t)
		return errors.Join(err, remove(plain))
	})
}
