// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cleanup"
)

// forwardChain is the chain of iptables for forwarded packets, and dockerChain the one that
// Docker leaves to others, before its own rules.
const (
	forwardChain = "FORWARD"
	dockerChain  = "DOCKER-USER"
)

// parseIptables reads the table filter of a listing.
func parseIptables(l cleanup.Listing) *ruleset {
	s := &ruleset{
		name: l.Program, ipv4: !l.IPv6, ipv6: l.IPv6, isIPTables: true, kind: kindOf(l.Program),
		forward: []string{forwardChain}, policies: map[string]verdict{}, chains: map[string][]rule{},
	}
	isFilter := false
	for line := range strings.Lines(l.Text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			isFilter = line == "*filter"
		case !isFilter:
		case strings.HasPrefix(line, ":"):
			s.declare(strings.Fields(line[1:]))
		case strings.HasPrefix(line, "-A ") && len(strings.Fields(line)) > 1:
			s.append(line)
		}
	}
	s.resolve()
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

// declare adds a chain with its policy.
func (s *ruleset) declare(fields []string) {
	if len(fields) < 2 {
		return
	}
	s.chains[fields[0]] = nil
	switch fields[1] {
	case "DROP":
		s.policies[fields[0]] = dropped
	case "ACCEPT":
		s.policies[fields[0]] = accepted
	}
}

// kindOf is the kind of iptables of a program.
func kindOf(program string) string {
	_, kind, _ := strings.Cut(program, "-")
	return kind
}

// append adds a rule. One that cannot be read may do anything.
func (s *ruleset) append(line string) {
	words, err := cleanup.SplitRule(line)
	r := rule{text: "the rule " + line}
	if err != nil {
		words, r.verdict = strings.Fields(line)[:2], anything
		r.conditions = []condition{always(unknown)}
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
	s.chains[words[1]] = append(s.chains[words[1]], r)
}

// selectors are the options that are followed.
var selectors = map[string]selector{
	"-s": sourceAddress, "-d": destinationAddress, "-i": fromInterface, "-o": toInterface, "-p": protocol, "--ctstate": ctState, "--state": ctState,
}

// parts are options that leave a part of what is sent by TCP and UDP.
var parts = []string{"--dport", "--sport", "--dports", "--sports", "--ports", "--icmp-type", "--icmpv6-type"}

// modules are those whose options tell what they match. Others match by themselves, or by something that is not understood.
var modules = []string{"comment", "conntrack", "state", "tcp", "udp", "icmp", "icmp6", "multiport"}

// option reads an option of a rule, and returns how many arguments it has.
func (r *rule) option(name, argument string, isNot bool) int {
	s, isFollowed := selectors[name]
	switch {
	case isFollowed:
		c := conditionOf(s, strings.Split(argument, ","))
		if isNot {
			c = not(c)
		}
		r.conditions = append(r.conditions, c)
	case name == "-j" || name == "-g":
		r.isGoto = name == "-g"
		r.setTarget(argument)
	case name == "--comment" || name == "--reject-with":
	case slices.Contains(parts, name):
		r.conditions = append(r.conditions, always(partly))
	case name == "-m" && slices.Contains(modules, argument):
	default:
		r.conditions = append(r.conditions, always(unknown))
		return 0
	}
	return 1
}

func (r *rule) setTarget(name string) {
	switch name {
	case "ACCEPT":
		r.verdict = accepted
	case "DROP", "REJECT":
		r.verdict = dropped
	case "RETURN":
		r.verdict = returned
	default:
		r.target = name
	}
}

// goingOn are targets of iptables after which a packet goes on with the next rule.
var goingOn = []string{
	"LOG", "NFLOG", "ULOG", "MARK", "CONNMARK", "TCPMSS", "TCPOPTSTRIP", "TOS", "DSCP", "TTL", "HL", "SET", "TRACE", "CLASSIFY",
	"SECMARK", "CONNSECMARK", "CT", "NOTRACK", "CHECKSUM", "AUDIT", "RATEEST", "LED", "TEE", "ECN", "IDLETIMER",
}

// resolve makes verdicts of targets that are no chain.
func (s *ruleset) resolve() {
	for _, rules := range s.chains {
		for i := range rules {
			r := &rules[i]
			if _, isChain := s.chains[r.target]; isChain || r.target == "" && r.verdict != undecided {
				continue
			}
			if r.target != "" && !slices.Contains(goingOn, r.target) {
				r.verdict = anything
			}
			r.target = ""
		}
	}
}
