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

type rule struct {
	conditions []condition
	verdict    verdict
	// target is the chain to go on with. Empty: none. With isGoto, the rules behind this one
	// are not.
	target string
	isGoto bool
	text   string
	// evades is whether it takes packets from connection tracking.
	evades bool
}

// ruleset are the chains of a table, for one family or both.
type ruleset struct {
	// name is for people.
	name string
	// kind is that of iptables which has its rules here, nft or legacy. Empty: neither, or not known.
	kind       string
	isIPTables bool
	// isZones is whether firewalld has its rules here, whose zones say more to people.
	isZones bool
	// ipv4 and ipv6 are whether packets of the family get here.
	ipv4, ipv6 bool
	// base are the chains that packets enter, by the hook, and policies what becomes of those that they
	// do not decide about.
	base     map[string][]string
	policies map[string]verdict
	// priorities tell when packets enter such a chain.
	priorities map[string]int
	chains     map[string][]rule
	// offloads are the interfaces of which flowtables forward established flows, by the flowtable.
	offloads map[string][]string
	// accept returns the command for a rule that accepts the packets inside a subnet, and open that for what
	// allocations of one send elsewhere, the answers, and what comes to published ports. The first argument is the chain.
	accept, open func(string, netip.Prefix) string
}

// packet is one on its way through a ruleset: the first of a connection.
type packet struct {
	source, destination side
	// from is the interface that it comes from, and to are those that it may go to. An empty name: any, but notTo.
	from  string
	to    []string
	notTo string
	// isTranslated is whether it comes to a published port.
	isTranslated bool
	// isUntracked is whether the kernel does not know its connection yet.
	isUntracked bool
	// isWhole is whether it stands for all between allocations of a pool: what accepts a part does not accept it.
	isWhole bool
	// protocol is tcp, udp, sctp or icmp, whose packet is an echo request, and port that of the destination. Empty: any.
	protocol string
	port     uint16
	// mayBeAccepted is whether a rule that may match, and may not, may accept it.
	mayBeAccepted bool
	// uncertain are rules that may match, and may not, each with what it then does.
	uncertain []rule
	// known is what became of it, by the chain. Thousands of rules may lead to one.
	known map[string]rule
}

// Hooks of packets that the host forwards, gets and sends.
const (
	Forward = "forward"
	Input   = "input"
	Output  = "output"
)

// prerouting is the hook of all packets that come in.
const prerouting = "prerouting"

// sees tells whether packets of the family of a prefix get here.
func (s *ruleset) sees(p netip.Prefix) bool {
	return p.Addr().Is4() && s.ipv4 || p.Addr().Is6() && s.ipv6
}

// decide returns what becomes of a packet in a chain that packets enter, and the rule or
// policy that says so. Other rules may still accept it.
func (s *ruleset) decide(chain string, p *packet) (verdict, string) {
	p.known = map[string]rule{}
	if end := s.follow(chain, p); end.verdict == accepted || end.verdict == dropped {
		return end.verdict, end.text
	}
	return s.policies[chain], "the policy of the chain " + chain
}

func (s *ruleset) follow(chain string, p *packet) rule {
	if _, ok := s.chains[chain]; !ok {
		return rule{verdict: anything}
	}
	if _, ok := p.known[chain]; !ok {
		p.known[chain] = rule{} // the kernel has no circles
		p.known[chain] = s.walk(chain, p)
	}
	return p.known[chain]
}

// walk goes through the rules of a chain until one decides for certain.
func (s *ruleset) walk(chain string, p *packet) rule {
	for _, r := range s.chains[chain] {
		matches := s.matches(chain, &r, p)
		if matches == no {
			continue
		}
		end := r
		if r.target != "" {
			end = s.follow(r.target, p)
			if end.verdict == undecided || end.verdict == returned {
				end.verdict = map[bool]verdict{true: returned}[r.isGoto]
			}
		}
		if end.verdict != undecided && (matches != yes || end.verdict == anything) {
			p.uncertain = append(p.uncertain, rule{verdict: end.verdict, text: r.text})
		}
		switch {
		case end.verdict == undecided:
		case matches == yes && end.verdict != anything:
			return end
		case end.verdict != dropped:
			p.mayBeAccepted = true
		}
	}
	return rule{}
}

// ownDocker are chains that Docker makes anew. They accept packets of its own networks alone: what else their rules
// say, as of a published port of a container, is no reason to believe that they let those of allocations through.
var ownDocker = []string{"DOCKER", "DOCKER-FORWARD", "DOCKER-CT", "DOCKER-BRIDGE", "DOCKER-INTERNAL", "DOCKER-INGRESS", "DOCKER-ISOLATION-STAGE-1", "DOCKER-ISOLATION-STAGE-2"}

func (s *ruleset) matches(chain string, r *rule, p *packet) answer {
	a := yes
	for _, c := range r.conditions {
		a = min(a, c(p))
	}
	if a == partly && p.isWhole || a != yes && s.isIPTables && slices.Contains(ownDocker, chain) {
		return no
	}
	return a
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

func covers(condition []netip.Prefix, subnet netip.Prefix) bool {
	return slices.ContainsFunc(condition, func(p netip.Prefix) bool {
		return p.Bits() <= subnet.Bits() && p.Contains(subnet.Addr())
	})
}
