// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// bridgeTable is a table of nftables with rules for frames.
type bridgeTable struct {
	name string
	// forwards is whether it has a chain for what bridges forward, arrives whether it has one for what comes to them, and routes whether a rule has the
	// host route frames instead.
	forwards, arrives, routes bool
}

// parseBridges reads what matters of a table of bridges. What cannot be read may have rules.
func parseBridges(t table, data []byte) bridgeTable {
	b := bridgeTable{name: t.name}
	var l listing
	if json.Unmarshal(data, &l) != nil {
		b.forwards, b.arrives = true, true
		return b
	}
	for _, o := range l.Objects {
		if o.Chain != nil && o.Chain.isBase() {
			b.forwards = b.forwards || o.Chain.Hook == Forward
			b.arrives = b.arrives || o.Chain.Hook == prerouting || o.Chain.Hook == Input
		}
		if o.Rule == nil {
			continue
		}
		for _, part := range o.Rule.Expression {
			b.routes = b.routes || bytes.Contains(part["mangle"], []byte(`"broute"`))
		}
	}
	return b
}

// Neighbours returns what drops for certain what the host routes between attachments to one network, which come from one interface. If it
// does not route, they are dropped only where bridges give their packets to the rules of IP.
func (f *Facts) Neighbours(subnet netip.Prefix, by string, isRouted bool) []Obstacle {
	if !isRouted && !isFiltered(by, subnet.Addr().Is6()) {
		return nil
	}
	what := "what the host routes between its attachments, and isolation allows"
	if !isRouted {
		what = "what the bridge forwards between its attachments, and gives to rules of IP (net.bridge.bridge-nf-call-iptables is 1)"
	}
	inside := side{prefix: subnet}
	var found []Obstacle
	for _, s := range f.rulesets {
		for _, chain := range s.base[Forward] {
			text, certain := s.drops(chain, &packet{source: inside, destination: inside, from: by, to: []string{by}})
			if !certain || !s.sees(subnet) {
				continue
			}
			fix := s.accept(chain, subnet)
			if s.isZones {
				fix = trust(subnet)
			}
			found = append(found, Obstacle{Subject: s.name, Problem: text + " drops " + what, Fix: fix, IsWarning: true})
		}
	}
	return found
}

// Bypasses returns what may take packets of a network from the sight of filters, or from connection tracking.
func (f *Facts) Bypasses(subnet netip.Prefix, by string) []Obstacle {
	var found []Obstacle
	add := func(subject, problem, fix string) {
		found = append(found, Obstacle{Subject: subject, Problem: problem, Fix: fix, IsWarning: true})
	}
	const untracked = " takes packets from connection tracking: answers of flows that isolation allows are denied, and published ports do not answer"
	for _, l := range f.Listings {
		if text := untrackedBy(l.IPv6, l.Text, subnet, by); text != "" {
			add(l.Program, text+untracked, fmt.Sprintf("%[1]s -t raw -I PREROUTING -s %[2]s -j ACCEPT; %[1]s -t raw -I PREROUTING -d %[2]s -j ACCEPT", l.Program, subnet))
		}
	}
	for _, s := range f.rulesets {
		if !s.sees(subnet) {
			continue
		}
		for _, chain := range slices.Sorted(maps.Keys(s.chains)) {
			if text := s.untracking(chain, subnet, by); text != "" {
				protocol := protocolOf(subnet)
				rule := fmt.Sprintf("nft insert rule %s %s ", strings.TrimPrefix(s.name, "nft table "), chain)
				add(s.name, text+untracked, fmt.Sprintf("%[1]s%[2]s saddr %[3]s accept; %[1]s%[2]s daddr %[3]s accept", rule, protocol, subnet))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.offloads)) {
			if slices.Contains(s.offloads[name], by) {
				add(s.name, fmt.Sprintf("the flowtable %s has %s: established flows pass beside all filters, also when nothing allows them any more, and are not counted", name, by),
					"remove "+by+" from the devices of the flowtable")
			}
		}
	}
	for _, b := range f.bridgeTables {
		if b.routes {
			add("nft table bridge "+b.name, "a rule has the host route frames as if no bridge were there (broute): those of attachments are then of none, and pass as such",
				"except the ends of allocations, whose names begin with veth, from the rule")
		}
	}
	return found
}

// untrackedBy returns the first rule of the table raw of iptables that may take packets of a network from connection tracking.
func untrackedBy(isIPv6 bool, listing string, subnet netip.Prefix, by string) string {
	if isIPv6 != subnet.Addr().Is6() {
		return ""
	}
	s := &ruleset{chains: map[string][]rule{}}
	for line := range netfilter.Lines(listing) {
		if line.Table == "raw" && line.Policy == "" {
			s.append(line)
		}
	}
	for _, chain := range slices.Sorted(maps.Keys(s.chains)) {
		if text := s.untracking(chain, subnet, by); text != "" {
			return text
		}
	}
	return ""
}

// untracking returns the rule of a chain that may take what comes from a network, or what comes to it, from connection tracking; empty: none.
func (s *ruleset) untracking(chain string, subnet netip.Prefix, by string) string {
	inside, outside := sidesOf(subnet)
	for _, p := range []*packet{
		{source: inside, destination: outside, from: by}, {source: outside, destination: inside},
	} {
		for _, r := range s.chains[chain] {
			matches := s.matches(chain, &r, p)
			if r.evades && matches != no {
				return r.text
			}
			if matches == yes && (r.verdict == accepted || r.verdict == dropped) {
				break
			}
		}
	}
	return ""
}
