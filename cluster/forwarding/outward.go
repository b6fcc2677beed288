// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"fmt"
	"net/netip"
	"slices"
)

// Local is a network of this host alone.
type Local struct {
	Subnet netip.Prefix
	// By is the interface of the host that its packets come from: Pairs for those of the plugin ptp. Empty: not known.
	By string
	// Publishes is whether ports of the host lead to it.
	Publishes bool
	// HasFirewall is whether the plugin firewall accepts its packets: in the rules of iptables, or in firewalld.
	HasFirewall bool
	// IPTables is the kind of iptables that the host's programs use, nft or legacy. Empty: not known.
	IPTables string
	// WithoutIPTables is whether the host has no iptables: then the plugin firewall accepts nothing, as no table of its own could
	// keep another one from dropping.
	WithoutIPTables bool
}

// Outward returns what drops for certain what allocations of a network send elsewhere. A rule that is not understood,
// or is about a part, may accept it: then nothing is known, and nothing is said. What drops several subnets is the same problem
// in the same words.
func (f *Facts) Outward(n Local) []Obstacle {
	inside, outside := sidesOf(n.Subnet)
	by := n.By
	if slices.Contains(f.inVRF, by) {
		by = "" // for filters, they come from the VRF
	}
	var found []Obstacle
	for _, s := range f.rulesets {
		if s.isZones || !s.sees(n.Subnet) {
			continue
		}
		for _, chain := range s.base[Forward] {
			text, out := s.drops(chain, &packet{source: inside, destination: outside, from: by, to: []string{""}, notTo: by})
			inText, in := s.drops(chain, &packet{source: outside, destination: inside, to: []string{by}, isTranslated: true})
			out = out && !n.accepts(s, chain)
			o := Obstacle{Subject: s.name, IsWarning: true, Fix: s.open(chain, n.Subnet)}
			switch {
			case out:
				o.Problem = text + " drops forwarded packets: allocations reach nothing outside their bridge"
				if in {
					o.Problem += ", and published ports do not answer"
				}
			case in && n.Publishes:
				o.Problem = inText + " drops what comes to published ports: they do not answer other hosts"
			default:
				continue
			}
			found = append(found, o)
		}
	}
	if !n.HasFirewall && f.IsRejected(n.Subnet) {
		found = append(found, Obstacle{
			Subject: "firewalld", IsWarning: true, Fix: trust(n.Subnet),
			Problem: "has no zone that accepts everything from the subnet: it rejects what allocations send elsewhere",
		})
	}
	return found
}

// sidesOf are the side of a network, and that of all other addresses.
func sidesOf(subnet netip.Prefix) (inside, outside side) {
	return side{prefix: subnet}, side{everything(subnet.Addr().Is6()), subnet}
}

// everything is all addresses of a family.
func everything(isIPv6 bool) netip.Prefix {
	if isIPv6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// drops is whether a chain drops a packet for certain, and what of it does.
func (s *ruleset) drops(chain string, p *packet) (text string, certain bool) {
	v, text := s.decide(chain, p)
	return text, v == dropped && !p.mayBeAccepted
}

// accepts is whether a chain is that in which the plugin firewall has its rules, or may be: there they come first, and accept
// what its addresses send. What chains of others drop, they do not accept, nor new connections to published ports.
func (n *Local) accepts(s *ruleset, chain string) bool {
	if !n.HasFirewall || n.WithoutIPTables || chain != forwardChain || !s.isIPTables && s.kind == "" {
		return false
	}
	return n.IPTables == "" || s.kind == "" || s.kind == n.IPTables
}

// trust is the command that has firewalld accept everything of a subnet.
func trust(subnet netip.Prefix) string {
	return fmt.Sprintf("firewall-cmd --permanent --zone=trusted --add-source=%s && firewall-cmd --reload", subnet)
}
