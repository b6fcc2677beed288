// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"fmt"
	"net/netip"
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
		name: l.Program, ipv4: !l.IPv6, ipv6: l.IPv6,
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
		case strings.HasPrefix(line, "-A "):
			s.append(line)
		}
	}
	chain := forwardChain
	if _, ok := s.chains[dockerChain]; ok {
		chain = dockerChain
	}
	s.open = func(subnet netip.Prefix) string {
		return fmt.Sprintf("%[1]s -I %[2]s -s %[3]s -j ACCEPT; %[1]s -I %[2]s -d %[3]s -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT", l.Program, chain, subnet)
	}
	s.accept = func(subnet netip.Prefix) string {
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

// append adds a rule. One that cannot be read counts as conditional.
func (s *ruleset) append(line string) {
	words, err := cleanup.SplitRule(line)
	if err != nil || len(words) < 2 {
		return
	}
	r := rule{text: "the rule " + line}
	for i := 2; i < len(words); i++ {
		argument := ""
		if i+1 < len(words) {
			argument = words[i+1]
		}
		i += r.option(words[i], argument)
	}
	s.chains[words[1]] = append(s.chains[words[1]], r)
}

// option reads an option of a rule, and returns how many arguments it has.
func (r *rule) option(name, argument string) int {
	switch name {
	case "-s":
		r.sources = r.condition(argument)
	case "-d":
		r.destinations = r.condition(argument)
	case "-j", "-g":
		r.isGoto = name == "-g"
		switch argument {
		case "ACCEPT":
			r.verdict = accepted
		case "DROP", "REJECT":
			r.verdict = dropped
		case "RETURN":
			r.verdict = returned
		default:
			r.target = argument
		}
	case "-i":
		r.from = append(r.from, argument)
	case "-o":
		r.to = append(r.to, argument)
	case "--comment", "--reject-with":
	case "-m":
		r.isConditional = r.isConditional || argument != "comment"
	default:
		r.isConditional = true
		return 0
	}
	return 1
}

func (r *rule) condition(text string) []netip.Prefix {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		r.isConditional = true
		return nil
	}
	return []netip.Prefix{p}
}
