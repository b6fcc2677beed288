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
	// anything is that of a program, or of something that is not understood.
	anything
)

// rule is one of a chain.
type rule struct {
	conditions []condition
	verdict    verdict
	// target is the chain to go on with. Empty: none. With isGoto, the rules behind this one
	// are not.
	target string
	isGoto bool
	// mayDecide is whether a part that is not understood may be a verdict.
	mayDecide bool
	text      string
}

// ruleset are the chains of a table, for one family or both.
type ruleset struct {
	// name is for people.
	name string
	// kind is that of iptables which has its rules here, nft or legacy. Empty: neither, or not known.
	kind string
	// isIPTables is whether the rules are those of iptables.
	isIPTables bool
	// ipv4 and ipv6 are whether packets of the family get here.
	ipv4, ipv6 bool
	// forward are the chains of forwarded packets, and policies what becomes of those that they
	// do not decide about.
	forward  []string
	policies map[string]verdict
	chains   map[string][]rule
	// accept returns the command for a rule that accepts the packets inside a subnet, and open that for what
	// allocations of one send elsewhere, the answers, and what comes to published ports. The first argument is the chain.
	accept, open func(string, netip.Prefix) string
}

// maxDepth limits chains that go to others. The kernel allows 16.
const maxDepth = 16

// packet is one on its way through a ruleset: the first of a connection.
type packet struct {
	source, destination side
	// from and to are the interfaces that it comes from and goes to: one of these. Empty: any.
	from, to []string
	// notTo are interfaces that it does not go to.
	notTo []string
	// isTranslated is whether it comes to a published port.
	isTranslated bool
	// isWhole is whether it stands for all between allocations of a pool: what accepts a part does not accept it.
	isWhole bool
}

// decide returns what becomes of a packet in a chain of forwarded packets, and the rule or
// policy that says so. Only rules that match for certain count.
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
		if s.matches(chain, &r, p) != yes || r.verdict == anything {
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

// ownDocker are chains that Docker makes anew. They accept packets of its own networks alone: what else their rules
// say, as of a published port of a container, is no reason to believe that they let those of allocations through.
var ownDocker = []string{"DOCKER", "DOCKER-FORWARD", "DOCKER-CT", "DOCKER-BRIDGE", "DOCKER-INTERNAL", "DOCKER-INGRESS", "DOCKER-ISOLATION-STAGE-1", "DOCKER-ISOLATION-STAGE-2"}

// matches is whether a rule of a chain matches.
func (s *ruleset) matches(chain string, r *rule, p *packet) answer {
	a := yes
	for _, c := range r.conditions {
		a = min(a, c(p))
	}
	if a != yes && (a == partly && p.isWhole || s.isIPTables && slices.Contains(ownDocker, chain)) {
		return no
	}
	return a
}

// outcomes are what may become of a packet in a chain.
type outcomes struct{ accept, drop, pass bool }

func (o outcomes) or(other outcomes) outcomes {
	return outcomes{o.accept || other.accept, o.drop || other.drop, o.pass || other.pass}
}

// mayAccept is whether a chain of forwarded packets accepts a packet if rules match that are not understood, or
// match a part.
func (s *ruleset) mayAccept(chain string, p *packet) bool {
	o := s.possible(chain, p, map[string]outcomes{})
	return o.accept || o.pass && s.policies[chain] != dropped
}

// possible returns all that may become of a packet in a chain. Each chain is followed once: thousands of rules may lead to one.
func (s *ruleset) possible(chain string, p *packet, known map[string]outcomes) outcomes {
	if o, ok := known[chain]; ok {
		return o
	}
	known[chain] = outcomes{pass: true} // the kernel has no circles
	var all outcomes
	for _, r := range s.chains[chain] {
		matches := s.matches(chain, &r, p)
		if matches == no {
			continue
		}
		o := s.of(&r, p, known)
		goesOn := matches != yes || o.pass && !r.isGoto && r.verdict != returned
		if !r.isGoto && r.verdict != returned {
			o.pass = false // to the next rule
		}
		all = all.or(o)
		if !goesOn {
			known[chain] = all
			return all
		}
	}
	all.pass = true
	known[chain] = all
	return all
}

// of returns what may become of a packet that a rule matches. It passes if neither the rule nor the chain it leads to decides.
func (s *ruleset) of(r *rule, p *packet, known map[string]outcomes) outcomes {
	switch {
	case r.target != "":
		return s.possible(r.target, p, known)
	case r.verdict == accepted:
		return outcomes{accept: true}
	case r.verdict == dropped:
		return outcomes{drop: true}
	case r.verdict == anything:
		return outcomes{true, true, true}
	}
	return outcomes{pass: true}
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
	return slices.ContainsFunc(condition, func(p netip.Prefix) bool {
		return p.Bits() <= subnet.Bits() && p.Contains(subnet.Addr())
	})
}
