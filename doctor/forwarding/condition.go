// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"net/netip"
	"slices"
	"strings"
)

// answer is whether a condition is met by a packet. The values are in such an order that the least of several is the answer
// of all together, and the largest that of their alternatives.
type answer int

const (
	no answer = iota
	// partly is by some of the packets, and not by all.
	partly
	// unknown is what is not understood, or cannot be known from rules alone.
	unknown
	yes
)

// condition is one of a rule.
type condition func(*packet) answer

// always is a condition with the same answer for each packet.
func always(a answer) condition { return func(*packet) answer { return a } }

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

// both is met where two conditions are.
func both(a, b condition) condition {
	return func(p *packet) answer { return min(a(p), b(p)) }
}

// anyOf is met where one of several conditions is.
func anyOf(all []condition) condition {
	return func(p *packet) answer {
		best := no
		for _, c := range all {
			best = max(best, c(p))
		}
		return best
	}
}

// selector is what of a packet a condition is about.
type selector int

const (
	opaque selector = iota
	fromInterface
	toInterface
	sourceAddress
	destinationAddress
	ctState
	ctStatus
	protocol
	addressFamily
)

// conditionOf is met if the packet has one of the values, as iptables and nft write them.
func conditionOf(s selector, values []string) condition {
	switch s {
	case fromInterface:
		return func(p *packet) answer { return named(p.from, values) }
	case toInterface:
		return func(p *packet) answer { return p.goesTo(values) }
	case sourceAddress:
		return addresses(values, func(p *packet) side { return p.source })
	case destinationAddress:
		return addresses(values, func(p *packet) side { return p.destination })
	case ctState, ctStatus:
		return tracked(values)
	case protocol:
		return transport(values)
	case addressFamily:
		return func(p *packet) answer {
			is6 := p.source.prefix.Addr().Is6()
			return whether(slices.Contains(values, map[bool]string{false: "ipv4", true: "ipv6"}[is6]) || slices.Contains(values, map[bool]string{false: "ip", true: "ip6"}[is6]))
		}
	default:
		return always(unknown)
	}
}

// goesTo is whether the interface that a packet goes to is one of the patterns.
func (p *packet) goesTo(patterns []string) answer {
	if len(p.notTo) > 0 && !slices.ContainsFunc(patterns, func(pattern string) bool { return pattern == Pairs || !slices.Contains(p.notTo, pattern) }) {
		return no
	}
	a := named(p.to, patterns)
	if a == yes && p.isWhole {
		return unknown // some of a pool's packets go by another of its interfaces
	}
	return a
}

func whether(is bool) answer {
	if is {
		return yes
	}
	return no
}

// named is whether a packet's interface, which is one of some names, is one of the patterns. Without names it may be any.
func named(names, patterns []string) answer {
	if len(names) == 0 || slices.Contains(names, "") {
		return partly
	}
	least, most := yes, no
	for _, name := range names {
		a := no
		for _, pattern := range patterns {
			a = max(a, isOneOf(name, pattern))
		}
		least, most = min(least, a), max(most, a)
	}
	if least == most {
		return least
	}
	return unknown
}

// isOneOf is whether an interface is one of a pattern. Pairs is some interface of its kind.
func isOneOf(name, pattern string) answer {
	if isNamed(name, pattern) {
		return yes
	}
	if prefix, ok := strings.CutSuffix(name, "+"); ok && strings.HasPrefix(pattern, prefix) {
		return partly
	}
	return no
}

// addresses is a condition on one side of a packet.
func addresses(values []string, of func(*packet) side) condition {
	var all []addressRange
	for _, value := range values {
		r, ok := parseRange(value)
		if !ok {
			return always(unknown)
		}
		all = append(all, r)
	}
	return func(p *packet) answer {
		best := no
		for _, r := range all {
			best = max(best, r.has(of(p)))
		}
		return best
	}
}

// side is where packets come from or go to: some or all addresses of a prefix, except those of another one.
type side struct{ prefix, except netip.Prefix }

// addressRange is one of addresses, with its ends.
type addressRange struct{ first, last netip.Addr }

// parseRange reads an address, a prefix, or a range.
func parseRange(text string) (addressRange, bool) {
	if first, last, isRange := strings.Cut(text, "-"); isRange {
		a, err := netip.ParseAddr(first)
		b, err2 := netip.ParseAddr(last)
		return addressRange{a, b}, err == nil && err2 == nil
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return addressRange{a, a}, true
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return addressRange{}, false
	}
	return rangeOf(p), true
}

func rangeOf(p netip.Prefix) addressRange {
	p = p.Masked()
	last := p.Addr().AsSlice()
	for i := range last {
		if host := 8*(i+1) - p.Bits(); host > 0 {
			last[i] |= byte(1<<min(host, 8) - 1)
		}
	}
	end, _ := netip.AddrFromSlice(last)
	return addressRange{p.Addr(), end}
}

// has is whether the addresses of a side are in the range.
func (r addressRange) has(s side) answer {
	all := rangeOf(s.prefix)
	switch {
	case r.first.Is4() != all.first.Is4() || r.last.Less(all.first) || all.last.Less(r.first):
		return no
	case !all.first.Less(r.first) && !r.last.Less(all.last):
		return yes
	}
	if s.except.IsValid() && s.except.Contains(r.first) && s.except.Contains(r.last) {
		return no
	}
	return partly
}

// tracked is a condition on the connection of a packet, which is a new one: that of an answer is not met.
func tracked(values []string) condition {
	return func(p *packet) answer {
		best := no
		for _, value := range values {
			switch strings.ToLower(value) {
			case "new":
				best = yes
			case "established", "related", "invalid":
			case "dnat":
				best = max(best, whether(p.isTranslated))
			default:
				best = max(best, unknown)
			}
		}
		return best
	}
}

// others are protocols of neither TCP nor UDP, as iptables and nft write them.
var others = []string{"icmp", "1", "igmp", "2", "gre", "47", "esp", "50", "ah", "51", "icmpv6", "ipv6-icmp", "58", "comp", "108", "vrrp", "112", "sctp", "132", "dccp", "33", "ospf", "89"}

// transport is a condition on the protocol. What allocations send is TCP and UDP: a rule for ICMP, as those of ufw,
// lets nothing else through.
func transport(values []string) condition {
	hasTCP, hasUDP, isKnown := false, false, true
	for _, value := range values {
		switch value {
		case "all", "0":
			return always(yes)
		case "tcp", "6":
			hasTCP = true
		case "udp", "17":
			hasUDP = true
		default:
			isKnown = isKnown && slices.Contains(others, value)
		}
	}
	return func(p *packet) answer {
		switch {
		case p.isWhole || isKnown && hasTCP != hasUDP:
			return partly
		case hasTCP && hasUDP:
			return yes
		case isKnown:
			return no
		}
		return unknown
	}
}
