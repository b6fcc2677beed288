// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// uplink is the interface of the test host by which attachments on other hosts are routed.
const uplink = "up0"

// remoteParties are attachments on other hosts, and nearParties some of this one.
func remoteParties() (all []*party) {
	for i, p := range []party{
		{job: "web", network: "s", level: isolation.Strict}, {job: "cache", network: "n", level: isolation.Network},
		{job: "batch", network: "o", level: isolation.None}, {job: "plain", network: "po", level: isolation.None}, {job: "db", network: "s", level: isolation.Strict},
	} {
		p.name = fmt.Sprintf("remote-%s%d", p.job, i)
		p.addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 7, 0, byte(i + 2)}), netip.MustParseAddr(fmt.Sprintf("2001:db8:7::%d", i+2))}
		all = append(all, &p)
	}
	return all
}

func nearParties() (near []*party) {
	for _, p := range parties() {
		switch p.name {
		case "s-db1", "s-web0", "n-web0", "o-batch1", "o-plain2", "ps-db0", "po-plain0":
			near = append(near, p)
		}
	}
	return near
}

// remoteMembers are the parties as the host learns of them.
func remoteMembers(all []*party) (members []filter.Member) {
	for _, p := range all {
		for _, m := range (isolation.Remote{Host: "other", Network: p.network, Level: p.level, Namespace: "prod", Job: p.job, Group: "g", Addresses: p.addresses}).Members() {
			members = append(members, filter.Member{Member: m, Via: uplink})
		}
	}
	return members
}

// connectRemotes makes the namespaces of parties on other hosts, as ports of a bridge that is the uplink.
func connectRemotes(t *testing.T, h *testHost, p *probes, all []*party) {
	t.Helper()
	h.in(t, h.Namespace, func() error {
		run(t, "ip", "link", "add", uplink, "type", "bridge")
		run(t, "ip", "link", "set", uplink, "up")
		run(t, "ip", "addr", "add", "10.9.0.1/24", "dev", uplink)
		run(t, "ip", "addr", "add", "2001:db8:9::1/64", "dev", uplink, "nodad")
		run(t, "ip", "route", "add", "10.7.0.0/24", "dev", uplink)
		run(t, "ip", "route", "add", "2001:db8:7::/64", "dev", uplink)
		return nil
	})
	for i, one := range all {
		n := newNamespace(t)
		h.in(t, h.Namespace, func() error {
			port := fmt.Sprintf("port%d", i)
			run(t, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", n.Handle())
			run(t, "ip", "link", "set", port, "master", uplink, "up")
			return nil
		})
		h.in(t, n, func() error {
			for v, a := range one.addresses {
				run(t, "ip", "addr", "add", netip.PrefixFrom(a, a.BitLen()).String(), "dev", "eth0", "nodad")
				run(t, "ip", "link", "set", "eth0", "up")
				run(t, "ip", "route", "add", "default", "via", []string{"10.9.0.1", "2001:db8:9::1"}[v], "dev", "eth0", "onlink")
			}
			return nil
		})
		one.endpoint = p.listen(t, n)
	}
}

// TestRootRemote: of all flows between attachments of this host and those of others the ones arrive that the model lets through, which takes both for what they
// are. After a change of whose the others are, and what they are not known to be, the same holds.
func TestRootRemote(t *testing.T) {
	roottest.Require(t)
	near, far := nearParties(), remoteParties()
	host, outside := &party{name: "host", addresses: parties()[0].addresses}, &party{name: "outside", addresses: parties()[1].addresses}
	h, p := newHost(t), &probes{arrived: map[string]bool{}}
	for i, name := range []string{"s", "n", "o"} {
		h.bridge(t, "br-"+name, fmt.Sprintf("10.%d.0.1/24", i+1), fmt.Sprintf("2001:db8:%d::1/64", i+1))
	}
	connectRemotes(t, h, p, append([]*party{outside}, far...))
	host.endpoint = p.listen(t, h.Namespace)
	state := filter.State{Rules: matrixRules}
	for i, one := range near {
		state.Members = append(state.Members, one.member(i))
	}
	for i, one := range near {
		g4, g6 := one.addresses[0].As4(), one.addresses[1].As16()
		g4[3], g6[15] = 1, 1
		h.attach(t, one.name, one.member(i), netip.AddrFrom4(g4), netip.AddrFrom16(g6), source(state))
		one.endpoint = p.listen(t, h.inside[one.name])
	}
	local := state.Members
	var before []filter.Member
	for round, change := range []func(){
		func() {},
		func() { far[0].job, far[1].job, far[1].network, far[1].level = "cache", "web", "s", isolation.Strict },
		func() { // two are gone
			for _, one := range far[2:4] {
				one.job, one.network = "", ""
			}
		},
	} {
		change()
		var known []*party
		for _, one := range far {
			if one.isMember() {
				known = append(known, one)
			}
		}
		now := remoteMembers(known)
		state.Members = append(local[:len(local):len(local)], now...)
		h.in(t, h.Namespace, func() error { return kernel.Change(t.Context(), state.Rules, before, now, source(state)) })
		before = now
		requireFlows(t, p, fmt.Sprintf("round %d ", round), state, append(append([]*party{host, outside}, near...), far...), len(near))
	}
}

// requireFlows sends probes between the host, the outside, parties of this host and those of others.
func requireFlows(t *testing.T, p *probes, round string, state filter.State, all []*party, near int) {
	t.Helper()
	isNear := map[*party]bool{}
	for _, one := range all[2 : 2+near] {
		isNear[one] = true
	}
	want, allowed := map[string]bool{}, 0
	var cases []*flow
	for _, f := range flows(all) {
		if f.isPublished || !isNear[f.from] && !isNear[f.to] || isNear[f.from] && isNear[f.to] {
			continue
		}
		cases = append(cases, f)
		isWanted := wanted(f.from, f.to, f.address, f.protocol, false)
		if f.from.job == "batch" && !f.to.isMember() && f.to.name != "outside" { // an address that rules have nothing of
			isWanted = f.to.name == "host" && isWanted
		}
		if want[round+f.String()] = isWanted; isWanted {
			allowed++
		}
		if decided := f.decide(state); decided.Allowed != isWanted {
			t.Errorf("%s%s: isolation.Decide says %t by %d %s", round, f, decided.Allowed, decided.Rule, decided.By)
		}
	}
	connections := map[string]func(string){}
	p.require(t, want, func(again string) {
		for i, f := range cases {
			name, to := round+f.String(), netip.AddrPortFrom(f.address, f.port)
			switch {
			case f.protocol != "tcp":
				f.from.send(f.protocol, i, to, name+again)
			case connections[name] == nil:
				connections[name] = f.from.connect(t, to, name+again)
			default:
				connections[name](name + again)
			}
		}
	})
	t.Logf("%s: %d flows, %d of them allowed", round, len(want), allowed)
	if allowed < 50 || len(want)-allowed < 50 {
		t.Errorf("%s: %d flows, %d of them allowed: too few", round, len(want), allowed)
	}
}

// TestRootRemoteForged: an attachment of this host that sends with the address of one on another host is not that one, also where nothing
// looks at its senders.
func TestRootRemoteForged(t *testing.T) {
	roottest.Require(t)
	all := nearParties()
	var db, plain *party
	for _, one := range all {
		switch one.name {
		case "s-db1":
			db = one
		case "o-plain2":
			plain = one
		}
	}
	h, p := newHost(t), &probes{arrived: map[string]bool{}}
	h.bridge(t, "br-s", "10.1.0.1/24", "2001:db8:1::1/64")
	h.bridge(t, "br-o", "10.3.0.1/24", "2001:db8:3::1/64")
	far := remoteParties()[:1]
	connectRemotes(t, h, p, far)
	state := filter.State{Rules: matrixRules, Members: append(remoteMembers(far), db.member(1), plain.member(2))}
	for i, one := range []*party{db, plain} {
		g4, g6 := one.addresses[0].As4(), one.addresses[1].As16()
		g4[3], g6[15] = 1, 1
		h.attach(t, one.name, one.member(i+1), netip.AddrFrom4(g4), netip.AddrFrom16(g6), source(state))
		one.endpoint = p.listen(t, h.inside[one.name])
	}
	// What passes from the remote one shows that it is known; a probe of UDP from its address is as one of TCP to the rule without ports.
	state.Rules.Allow = []isolation.Allow{{Name: "web reaches db", From: isolation.Selector{Job: "web", Namespace: "prod"}, To: isolation.Selector{Job: "db"}}}
	h.in(t, h.Namespace, func() error { return kernel.Apply(t.Context(), source(state)) })
	h.in(t, h.inside[plain.name], func() error {
		run(t, "ip", "addr", "add", far[0].addresses[0].String()+"/32", "dev", "eth0")
		run(t, "ip", "route", "replace", "default", "via", "10.3.0.1", "src", far[0].addresses[0].String())
		return nil
	})
	p.require(t, map[string]bool{"known": true, "forged": false}, func(round string) {
		to := netip.AddrPortFrom(db.addresses[0], probePort)
		plain.send("udp", 0, to, "forged"+round)
		far[0].send("udp", 0, to, "known"+round)
	})
}

// TestRootChange: elements of attachments on other hosts come and go without the rest, whatever is missing is made, and the last attachment of this
// host takes the tables with it.
func TestRootChange(t *testing.T) {
	roottest.Require(t)
	state, far := mixed(), remoteParties()
	local := state.Members
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		if err := kernel.Change(t.Context(), state.Rules, nil, remoteMembers(far), source(state)); err != nil {
			return err
		}
		requireNothing(t) // nothing of this host is kept apart
		if err := kernel.Apply(t.Context(), source(state)); err != nil {
			return err
		}
		first, second := remoteMembers(far[:3]), remoteMembers(far[2:])
		for _, damage := range []string{"", "nft flush set inet allocnet-isolation members4", "nft flush chain inet allocnet-isolation strict"} {
			for _, step := range [][2][]filter.Member{{nil, first}, {first, second}, {second, second}, {second, nil}} {
				state.Members = append(local[:len(local):len(local)], step[1]...)
				if damage != "" && len(step[0]) > 0 {
					run(t, strings.Fields(damage)...)
				}
				if err := kernel.Change(t.Context(), state.Rules, step[0], step[1], source(state)); err != nil {
					return err
				}
				if damage != "" {
					err := kernel.Apply(t.Context(), source(state))
					if err != nil {
						return err
					}
				}
				requireComplete(t, state)
				text := listTables(t)
				for _, p := range far {
					isKnown := false
					for _, m := range step[1] {
						isKnown = isKnown || m.Addresses[0] == p.addresses[0]
					}
					if id := fmt.Sprintf("%q", "@"+p.addresses[0].String()); strings.Contains(text, id) != isKnown {
						t.Errorf("%s is known: %t, want %t", id, !isKnown, isKnown)
					}
				}
			}
		}
		state.Members = append(local[:len(local):len(local)], first...)
		err := kernel.Change(t.Context(), state.Rules, nil, first, source(state))
		for _, m := range local {
			err = errors.Join(err, kernel.Remove(t.Context(), lazily(state.Rules), m))
		}
		requireNothing(t)
		return err
	})
}
