// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"iter"
	"math/big"
	"net/netip"
	"slices"
)

// BlockOf returns the block of an address; false if the address is in none.
func (c *Config) BlockOf(a netip.Addr) (Block, bool) {
	s := c.Slots(FamilyOf(a))
	b := s.blockOf(a)
	_, ok := s.Index(b)
	return b, ok
}

// Usable is whether an address may be given out from its block: it is in a range, is neither
// the network's, nor that of broadcasts, nor a gateway, and is not excluded or reserved.
func (c *Config) Usable(a netip.Addr) bool {
	inRange := slices.ContainsFunc(c.Ranges, func(r Range) bool { return r.has(a) })
	return inRange && !c.forbidden(a) && !c.inReserved(a)
}

// IsReserved is whether an address may be given out as a reserved one.
func (c *Config) IsReserved(a netip.Addr) bool { return c.inReserved(a) && !c.forbidden(a) }

func (c *Config) inReserved(a netip.Addr) bool { return AnyContains(c.Reserved, a) }

// AnyContains tells whether one of the prefixes has an address.
func AnyContains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// forbidden is whether an address is never given out.
func (c *Config) forbidden(a netip.Addr) bool {
	return slices.ContainsFunc(c.Ranges, func(r Range) bool {
		first, last := r.bounds()
		outside := r.Subnet.Contains(a) && (a.Less(first) || last.Less(a))
		return outside || a == r.Gateway || AnyContains(r.Exclude, a)
	})
}

// Offsets returns the usable addresses of a block, by their distance from its first one.
func (c *Config) Offsets(b Block) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, s := range c.spans(b) {
			for i := s.first; i <= s.last; i++ {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// Capacity returns the number of usable addresses of a block.
func (c *Config) Capacity(b Block) int {
	count := 0
	for _, s := range c.spans(b) {
		count += s.last - s.first + 1
	}
	return count
}

type span struct{ first, last int }

func (c *Config) spans(b Block) []span {
	var all []span
	for i := range c.Ranges {
		if s, ok := intersect(b, c.Ranges[i].Start, c.Ranges[i].End); ok {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(x, y span) int { return x.first - y.first })
	for i := range c.Ranges {
		r := &c.Ranges[i]
		first, last := r.bounds()
		if first != r.Subnet.Addr() {
			all = without(all, b, r.Subnet.Addr(), first.Prev())
		}
		if end := LastOf(r.Subnet); last != end {
			all = without(all, b, end, end)
		}
		if r.Gateway.IsValid() {
			all = without(all, b, r.Gateway, r.Gateway)
		}
		for _, p := range r.Exclude {
			all = without(all, b, p.Addr(), LastOf(p))
		}
	}
	for _, p := range c.Reserved {
		all = without(all, b, p.Addr(), LastOf(p))
	}
	return all
}

// intersect returns the addresses of a block from one address to another.
func intersect(b Block, from, to netip.Addr) (span, bool) {
	begin, end := b.Addr(), LastOf(b)
	if begin.BitLen() != from.BitLen() || end.Less(from) || to.Less(begin) {
		return span{}, false
	}
	if from.Less(begin) {
		from = begin
	}
	if end.Less(to) {
		to = end
	}
	return span{offset(b, from), offset(b, to)}, true
}

// without removes the addresses from one to another.
func without(all []span, b Block, from, to netip.Addr) []span {
	gone, ok := intersect(b, from, to)
	if !ok {
		return all
	}
	var left []span
	for _, s := range all {
		if before := (span{s.first, min(s.last, gone.first-1)}); before.first <= before.last {
			left = append(left, before)
		}
		if after := (span{max(s.first, gone.last+1), s.last}); after.first <= after.last {
			left = append(left, after)
		}
	}
	return left
}

func offset(b Block, a netip.Addr) int {
	return int(between(b.Addr(), a).Int64())
}

// Offset returns the distance of an address from the first one of its block.
func Offset(b Block, a netip.Addr) (int, bool) {
	if !b.Contains(a) {
		return 0, false
	}
	return offset(b, a), true
}

// At returns the address with an offset in a block.
func At(b Block, offset int) netip.Addr {
	return behind(b.Addr(), big.NewInt(int64(offset)))
}

// ReservedOf returns the addresses of a family in the reserved prefixes, also those that are never given
// out. See IsReserved.
func (c *Config) ReservedOf(f Family) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for _, p := range c.Reserved {
			for a := p.Addr(); FamilyOf(a) == f && p.Contains(a); a = a.Next() {
				if !yield(a) {
					return
				}
			}
		}
	}
}
