// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// forwardChain is the chain of iptables for forwarded packets, and dockerChain the one that
// Docker leaves to others, before its own rules.
const (
	forwardChain = "FORWARD"
	dockerChain  = "DOCKER-USER"
)

// otherTables are those of iptables that may drop as well as the table filter, though few rules of them do.
var otherTables = []string{"mangle", "security", "raw"}

// arrivals are the priorities of those that packets enter as they come.
var arrivals = map[string]int{"raw": -300, "mangle": -150}

func parseIptables(l cleanup.Listing) *ruleset { return parseIptablesTable(l, "filter") }

func parseIptablesTable(l cleanup.Listing, table string) *ruleset {
	s := &ruleset{
		name: l.Program, ipv4: !l.IPv6, ipv6: l.IPv6, isIPTables: true,
		base:     map[string][]string{prerouting: {"PREROUTING"}, Forward: {forwardChain}, Input: {"INPUT"}, Output: {"OUTPUT"}},
		policies: map[string]verdict{}, priorities: map[string]int{"PREROUTING": arrivals[table]}, chains: map[string][]rule{},
	}
	_, s.kind, _ = strings.Cut(l.Program, "-")
	for line := range netfilter.Lines(l.Text) {
		switch {
		case line.Table != table:
		case line.Policy != "":
			s.declare(line)
		default:
			s.append(line)
		}
	}
	chain := forwardChain
	if _, ok := s.chains[dockerChain]; ok {
		chain = dockerChain
	}
	s.open = func(_ string, subnet netip.Prefix) string {
		return fmt.Sprintf("%[1]s -I %[2]s -s %[3]s -j ACCEPT; %[1]s -I %[2]s -d %[3]s -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT", l.Program, chain, subnet)
	}
	s.accept = func(_ string, subnet netip.Prefix) string {
		return fmt.Sprintf("%s -I %s -s %s -d %s -j ACCEPT", l.Program, chain, subnet, subnet)
	}
	return s
}

func (s *ruleset) declare(chain netfilter.Line) {
	s.chains[chain.Chain] = nil
	switch chain.Policy {
	case "DROP":
		s.policies[chain.Chain] = dropped
	case "ACCEPT":
		s.policies[chain.Chain] = accepted
	}
}

// append adds a rule. One that cannot be read may do anything.
func (s *ruleset) append(line netfilter.Line) {
	words, err := netfilter.Split(line.Rule)
	r := rule{text: "the rule " + line.Rule}
	if err != nil {
		words, r.verdict = nil, anything
	}
	isNot := false
	for i := 2; i < len(words); i++ {
		if words[i] == "!" {
			isNot = true
			continue
		}
		argument := ""
		if i+1 < len(words) {
			argument = words[i+1]
		}
		i += r.option(words[i], argument, isNot)
		isNot = false
	}
	s.chains[line.Chain] = append(s.chains[line.Chain], r)
}

// goingOn are targets of iptables after which a packet goes on with the next rule.
var goingOn = []string{"LOG", "NFLOG", "MARK", "NOTRACK", "CONNMARK", "TCPMSS", "TOS", "DSCP", "SET", "TRACE", "CLASSIFY", "CT", "CHECKSUM", "AUDIT", "TEE"}

func (r *rule) option(name, argument string, isNot bool) int {
	c := conditionOf(name, strings.Split(argument, ","))
	switch {
	case c != nil && isNot:
		r.conditions = append(r.conditions, not(c))
	case c != nil:
		r.conditions = append(r.conditions, c)
	case name == "-j" || name == "-g":
		r.isGoto = name == "-g"
		switch argument {
		case "ACCEPT":
			r.verdict = accepted
		case "DROP", "REJECT":
			r.verdict = dropped
		case "RETURN":
			r.verdict = returned
		default:
			if !slices.Contains(goingOn, argument) {
				r.target = argument
			}
			r.evades = r.evades || argument == "NOTRACK"
		}
	case name == "--notrack":
		r.evades = true
		return 0
	case name == "-m" && argument == "rpfilter":
		r.conditions = append(r.conditions, comesByItsRoute)
	case name == "--invert" && len(r.conditions) > 0: // of rpfilter, which is before it
		last := &r.conditions[len(r.conditions)-1]
		*last = not(*last)
		return 0
	case slices.Contains([]string{"--loose", "--validmark", "--accept-local"}, name):
		return 0
	case name == "--comment" || name == "--reject-with":
	case name == "-m" && slices.Contains([]string{"comment", "conntrack", "state", "tcp", "udp", "icmp", "icmp6", "multiport"}, argument): // their options tell what they match
	default:
		r.conditions = append(r.conditions, isUnknown)
		return 0
	}
	return 1
}
