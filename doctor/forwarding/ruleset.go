// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"net/netip"
	"slices"
	"strings"
)

// verdict is what becomes of a packet.
type verdict int

const (
	undecided verdict = iota
	accepted
	dropped
	returned
)

// rule is one of a chain.
type rule struct {
	// sources and destinations are what the packet has to be from and to. Empty: anything.
	sources, destinations []netip.Prefix
	// from and to are patterns of the interfaces that the packet has to come from or go to.
	from, to []string
	// isConditional is whether the rule has further conditions.
	isConditional bool
	verdict       verdict
	// target is the chain to go on with. Empty: none. With isGoto, the rules behind this one
	// are not.
	target string
	isGoto bool
	text   string
}

// ruleset are the chains of a table, for one family or both.
type ruleset struct {
	// name is for people.
	name string
	// ipv4 and ipv6 are whether packets of the family get here.
	ipv4, ipv6 bool
	// forward are the chains of forwarded packets, and policies what becomes of those that they
	// do not decide about.
	forward  []string
	policies map[string]verdict
	chains   map[string][]rule
	// accept returns the command for a rule that accepts the packets inside a subnet, and open that for what
	// allocations of one send elsewhere, the answers, and what comes to published ports.
	accept, open func(netip.Prefix) string
}

// maxDepth limits chains that go to others. The kernel allows 16.
const maxDepth = 16

// packet is one on its way through a ruleset.
type packet struct {
	// source and destination are where it may come from and go to, all of it.
	source, destination netip.Prefix
	// from is the interface that it comes from. Empty: it is not known.
	from string
	// interfaces are those that packets of a pool come from or go to.
	interfaces []string
	// mayBeAccepted is whether a rule for some of them accepts it, or goes to another chain.
	mayBeAccepted bool
}

// decide returns what becomes of a packet in a chain of forwarded packets, and the rule or
// policy that says so.
func (s *ruleset) decide(chain string, p *packet) (verdict, string) {
	if v, text := s.follow(chain, p, 0); v == accepted || v == dropped {
		return v, text
	}
	return s.policies[chain], "the policy of the chain " + chain
}

func (s *ruleset) follow(chain string, p *packet, depth int) (verdict, string) {
	if depth > maxDepth {
		return undecided, ""
	}
	for _, r := range s.chains[chain] {
		if !p.matches(r) {
			continue
		}
		if r.target == "" {
			if r.verdict != undecided {
				return r.verdict, r.text
			}
			continue
		}
		v, text := s.follow(r.target, p, depth+1)
		if v == accepted || v == dropped || r.isGoto {
			return v, text
		}
	}
	return undecided, ""
}

// matches is whether a rule matches for certain. It notes one that may accept the packet.
func (p *packet) matches(r rule) bool {
	if r.isConditional || !covers(r.sources, p.source) || !covers(r.destinations, p.destination) {
		return false
	}
	isOther := func(pattern string) bool {
		return !slices.ContainsFunc(p.interfaces, func(name string) bool { return isNamed(name, pattern) })
	}
	named := slices.Concat(r.from, r.to)
	if len(named) > 0 && !slices.ContainsFunc(named, isOther) && (r.verdict == accepted || r.target != "") {
		p.mayBeAccepted = true
	}
	return len(r.to) == 0 && !slices.ContainsFunc(r.from, func(pattern string) bool { return !isNamed(p.from, pattern) })
}

// isNamed is whether an interface is one of a pattern, which ends with + in iptables, and with *
// in nftables, if it is the beginning of a name.
func isNamed(name, pattern string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "+"); ok {
		return strings.HasPrefix(name, prefix)
	}
	prefix, ok := strings.CutSuffix(pattern, "*")
	return name == pattern || ok && strings.HasPrefix(name, prefix)
}

// covers is whether all addresses of a subnet match.
func covers(condition []netip.Prefix, subnet netip.Prefix) bool {
	return len(condition) == 0 || slices.ContainsFunc(condition, func(p netip.Prefix) bool {
		return p.Bits() <= subnet.Bits() && p.Contains(subnet.Addr())
	})
}
