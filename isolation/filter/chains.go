// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// side is an end of a flow, as rules see it.
type side struct {
	link    func(*table) netfilter.KeyPart
	address func(*ip) netfilter.KeyPart
}

var (
	ofSource      = side{func(t *table) netfilter.KeyPart { return t.in }, (*ip).source}
	ofDestination = side{func(t *table) netfilter.KeyPart { return t.out }, (*ip).destination}
)

// matchSelector matches what a selector selects; ok is false if that is nothing on this host. Sets that it needs are made.
func (t *table) matchSelector(s *isolation.Selector, v *ip, at side) (_ match, ok bool) {
	if selectsAll(s) {
		return nil, true
	}
	if s.Host { // what it sends comes from no interface
		return meta(expr.MetaKeyIIFNAME, expr.CmpOpEq, make([]byte, unix.IFNAMSIZ)...), !t.isInside
	}
	if hasPatterns(s) {
		name := setOf(s) + v.suffix
		return netfilter.KeyIn(name, true, at.link(t), at.address(v)), t.hasSet(name)
	}
	if len(v.prefixes(s)) == 0 {
		return nil, false
	}
	cidrs := t.set(netfilter.KeySet{Name: "in-" + digest(appendSelector(nil, s)) + v.suffix, Key: []netfilter.KeyType{v.address}, HasRanges: true})
	for _, e := range v.reachOf([]*isolation.Selector{s}).elements(nil) {
		cidrs.elements[identity(e)] = e
	}
	return netfilter.KeyIn(cidrs.Name, true, at.address(v)), true
}

// lines are the rules of a chain for ports of what a selector selects. Without ports these are all.
func (t *table) lines(comment string, s *isolation.Selector, at side, ports []isolation.Ports, end match) (rules []netfilter.Rule) {
	for _, v := range ips {
		matched, ok := t.matchSelector(s, v, at)
		if !ok {
			continue
		}
		parts := []match{nil}
		if len(ports) > 0 {
			parts = nil
		}
		for _, p := range ports {
			parts = append(parts, v.ports(p))
		}
		for _, part := range parts {
			rules = append(rules, rule(comment, v.is(), matched, part, end))
		}
	}
	return rules
}

// allowChain makes the chain of rules allow.
func (t *table) allowChain(r *ruleset, c class) {
	if t.chains[c.chain] != nil {
		return
	}
	var lines []netfilter.Rule
	var names []string
	for _, i := range c.rules {
		a := &r.Allow[i]
		names = append(names, a.Name)
		lines = append(lines, t.lines("allow "+a.Name, &a.From, ofSource, a.Ports, accept)...)
	}
	t.chain(c.chain, shortened("allow "+strings.Join(names, ", ")), lines...)
}

// egressChain makes the chain of rules egress. A packet that they let out goes on.
func (t *table) egressChain(r *ruleset, c class) {
	if t.chains[c.chain] != nil {
		return
	}
	var lines []netfilter.Rule
	var names []string
	for _, i := range c.rules {
		e := &r.Egress[i]
		names = append(names, e.Name)
		lines = append(lines, t.lines("egress "+e.Name, &e.To, ofDestination, e.Ports, goBack)...)
		if e.DNS {
			dns := []isolation.Ports{{Protocol: "udp", First: 53, Last: 53}, {Protocol: "tcp", First: 53, Last: 53}}
			lines = append(lines, t.lines("egress "+e.Name+", DNS", &isolation.Selector{}, ofDestination, dns, goBack)...)
		}
	}
	t.chain(c.chain, shortened("egress "+strings.Join(names, ", ")), append(lines, rule("2: no rule egress has it", deniedFor(isolation.ByEgress)))...)
}

// reachedChain makes the chain of rules allow that select their destination by its address.
func (t *table) reachedChain(r *ruleset) {
	var rules []netfilter.Rule
	for _, v := range ips {
		ranges := r.ranges(v)
		if len(ranges) == 0 {
			continue
		}
		elements := ranges.elements(func(rules []int) string {
			c := r.allowClass(rules)
			t.allowChain(r, c)
			t.note(c, names{})
			return c.chain
		})
		var text []byte
		for _, e := range elements {
			text = append(append(text, e.Key...), e.Chain...)
		}
		to := t.set(netfilter.KeySet{Name: "to-" + Sum(text) + v.suffix, Key: []netfilter.KeyType{v.address}, IsMap: true, HasRanges: true})
		for _, e := range elements {
			to.elements[identity(e)] = e
		}
		rules = append(rules, rule("1: "+to.Name, v.is(), netfilter.KeyVerdict(to.Name, v.destination())))
	}
	t.chain(reached, "1: allowed to addresses", rules...)
}

// networkSets are the names of the sets of a network of the level network, without the suffixes of its attachments, and of its links; its
// chain has the name, too.
func networkSets(network string) string { return networkPrefix + Sum([]byte(network)) }

// networkPrefix begins these names.
const networkPrefix = "net-"

// networkChain makes the chain to a network of the level network, with its sets.
func (t *table) networkChain(network string) {
	name := networkSets(network)
	if t.chains[name] != nil {
		return
	}
	var own, others []netfilter.Rule
	for _, v := range ips {
		t.set(netfilter.KeySet{Name: name + "-" + v.suffix, Comment: shortened(network), Key: []netfilter.KeyType{netfilter.LinkName, v.address}})
		own = append(own, rule("of the same network", v.is(), netfilter.KeyIn(name+"-"+v.suffix, true, t.in, v.source()), accept))
		others = append(others, rule("5: of another network", v.is(), netfilter.KeyIn(members+v.suffix, true, t.in, v.source()), deniedFor(isolation.ByNetwork)))
	}
	t.set(netfilter.KeySet{Name: name + "-links", Comment: shortened(network), Key: linkSet})
	others = append(others, rule("5: from another network, with another address", netfilter.KeyIn(links, true, t.in), netfilter.KeyIn(name+"-links", false, t.in), deniedFor(isolation.ByNetwork)))
	t.chain(name, shortened("5: to the network "+network), slices.Concat(own, others)...)
}

// verdictFor is that of the level of a network, for packets to it.
func verdictFor(m *isolation.Member) netfilter.Element {
	chain := "none"
	switch m.Level {
	case isolation.Strict:
		chain = "strict"
	case isolation.Network:
		chain = networkSets(m.Network)
	case isolation.None:
	}
	return netfilter.Element{Verdict: expr.VerdictGoto, Chain: chain}
}
