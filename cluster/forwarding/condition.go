// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// answer is whether a condition is met by a packet. The least of several is the answer of all together, and the largest
// that of their alternatives.
type answer int

const (
	no answer = iota
	// partly is by some of the packets, and not by all.
	partly
	// unknown is what is not understood: it may be met.
	unknown
	yes
)

type condition func(*packet) answer

func isUnknown(*packet) answer { return unknown }

// comesByItsRoute is met if the host sends to the source of the packet by the interface from which it comes: of a flow that is what is told of
// that interface.
func comesByItsRoute(p *packet) answer {
	if p.from == "" {
		return unknown
	}
	return yes
}

// not is the opposite of a condition. That of a part is another part.
func not(c condition) condition {
	return func(p *packet) answer {
		switch a := c(p); a {
		case no:
			return yes
		case yes:
			return no
		default:
			return a
		}
	}
}

// conditionOf is met if the packet has one of the values. The name is that of iptables or nft. Nil: it is not understood.
func conditionOf(name string, values []string) condition {
	var is func(p *packet, value string) answer
	switch name {
	case "-i", "meta iifname", "meta iif":
		is = func(p *packet, value string) answer { return named(p.from, value) }
	case "-o", "meta oifname", "meta oif":
		is = (*packet).goesTo
	case "-s", "ip saddr", "ip6 saddr":
		is = func(p *packet, value string) answer { return p.source.isIn(value) }
	case "-d", "ip daddr", "ip6 daddr":
		is = func(p *packet, value string) answer { return p.destination.isIn(value) }
	case "--ctstate", "--state", "ct state", "ct status":
		is = (*packet).isTracked
	case "-p", "meta l4proto", "ip protocol", "ip6 nexthdr":
		is = (*packet).has
	case "meta nfproto":
		is = (*packet).isOf
	case "--dport", "--dports", "tcp dport", "udp dport", "sctp dport", "th dport":
		is = (*packet).goesToPort
	case "--icmp-type", "--icmpv6-type", "icmp type", "icmpv6 type":
		is = (*packet).isICMP
	default:
		return nil
	}
	return func(p *packet) answer {
		best := no
		for _, value := range values {
			best = max(best, is(p, value))
		}
		return best
	}
}

func whether(is bool) answer {
	if is {
		return yes
	}
	return no
}

// named is whether an interface is one of a pattern. Pairs is some interface of its kind, and an empty name any.
func named(name, pattern string) answer {
	prefix, isKind := strings.CutSuffix(name, "+")
	if name == "" || isKind && strings.HasPrefix(pattern, prefix) && pattern != name {
		return partly
	}
	return whether(isNamed(name, pattern))
}

func (p *packet) goesTo(pattern string) answer {
	if pattern == p.notTo && pattern != Pairs {
		return no
	}
	best := no
	for _, name := range p.to {
		best = max(best, named(name, pattern))
	}
	if p.isWhole {
		return min(best, unknown) // some of a pool's packets go by another of its interfaces
	}
	return best
}

// side is where packets come from or go to: a prefix, except another one.
type side struct{ prefix, except netip.Prefix }

func (s side) isIn(text string) answer {
	p, err := netip.ParsePrefix(text)
	if a, isAddress := netip.ParseAddr(text); isAddress == nil {
		p, err = a.Prefix(a.BitLen())
	}
	switch {
	case err != nil:
		return unknown
	case !p.Overlaps(s.prefix) || s.except.IsValid() && covers([]netip.Prefix{s.except}, p):
		return no
	case p.Bits() <= s.prefix.Bits():
		return yes
	}
	return partly
}

// isTracked is whether the packet's connection, which is a new one, has a state.
func (p *packet) isTracked(state string) answer {
	switch state = strings.ToLower(state); {
	case p.isUntracked:
		return unknown
	case state == "new":
		return yes
	case state == "dnat":
		return whether(p.isTranslated)
	}
	return min(unknown, whether(!slices.Contains([]string{"established", "related", "invalid"}, state)))
}

// has is whether the packet has the header of a protocol. What allocations send is TCP and UDP: a rule for ICMP, as those
// of ufw, lets nothing else through.
func (p *packet) has(protocol string) answer {
	isIPv6 := p.source.prefix.Addr().Is6()
	switch {
	case protocol == "ip" || protocol == "ip6":
		return whether(isIPv6 == (protocol == "ip6"))
	case p.protocol != "":
		return p.hasHeader(protocol, isIPv6)
	}
	switch protocol {
	case "icmp", "icmpv6", "ipv6-icmp":
		return no
	case "tcp", "udp", "th":
		return partly
	}
	return unknown
}

// hasHeader is has of a packet whose protocol is known.
func (p *packet) hasHeader(protocol string, isIPv6 bool) answer {
	switch protocol {
	case "all":
		return yes
	case "th":
		return whether(p.protocol != "icmp")
	case "icmp":
		return whether(p.protocol == "icmp" && !isIPv6)
	case "icmpv6", "ipv6-icmp":
		return whether(p.protocol == "icmp" && isIPv6)
	case "tcp", "udp", "sctp", "udplite", "dccp", "esp", "ah", "gre", "igmp":
		return whether(protocol == p.protocol)
	}
	return unknown
}

// isOf is whether a packet whose protocol is known is of a family.
func (p *packet) isOf(family string) answer {
	if p.protocol == "" {
		return unknown
	}
	return whether(p.source.prefix.Addr().Is6() == (family == "ipv6"))
}

// goesToPort is whether the destination has a port, or one of a range, as "80:90" of iptables.
func (p *packet) goesToPort(text string) answer {
	if p.port == 0 {
		return unknown
	}
	first, last, isRange := strings.Cut(text, ":")
	if !isRange {
		last = first
	}
	from, errFrom := strconv.ParseUint(first, 10, 16)
	to, errTo := strconv.ParseUint(last, 10, 16)
	if errFrom != nil || errTo != nil {
		return unknown
	}
	return whether(from <= uint64(p.port) && uint64(p.port) <= to)
}

// isICMP is whether an echo request has a type.
func (p *packet) isICMP(kind string) answer {
	if p.protocol != "icmp" {
		return unknown
	}
	request := "8"
	if p.source.prefix.Addr().Is6() {
		request = "128"
	}
	if kind == "any" {
		return yes
	}
	kind, code, hasCode := strings.Cut(kind, "/")
	if hasCode && code != "0" { // that of an echo request is 0
		return no
	}
	return whether(kind == request || kind == "echo-request")
}
