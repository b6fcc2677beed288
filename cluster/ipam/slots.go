// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"math/big"
	"net/netip"
)

// maxSlots limits the blocks of a range: more than any cluster has, and few enough for the sum
// of all ranges to be a number of 64 bits.
const maxSlots = 1 << 48

// Slots are the blocks of a family, by number. A range that is appended to a pool does not
// change the numbers of the others. A block may have no usable address: see Capacity.
type Slots struct {
	size int
	runs []run
}

// run are consecutive blocks.
type run struct {
	first netip.Addr
	count uint64
}

// Slots returns the blocks of a family.
func (c *Config) Slots(f Family) Slots {
	s := Slots{size: *c.BlockSize.of(f)}
	for i := range c.Ranges {
		if r := &c.Ranges[i]; FamilyOf(r.Start) == f {
			s.add(r)
		}
	}
	return s
}

// add appends the blocks of a range. The first and the last may be those of an earlier range
// as well: ranges may begin and end within a block.
func (s *Slots) add(r *Range) {
	first, last := s.blockOf(r.Start), s.blockOf(r.End)
	step := s.stride(r.Start, 1)
	for first.Addr().Compare(last.Addr()) <= 0 {
		_, firstIsKnown := s.Index(first)
		_, lastIsKnown := s.Index(last)
		switch {
		case first == last && firstIsKnown:
			return
		case firstIsKnown:
			first = netip.PrefixFrom(behind(first.Addr(), step), s.size)
		case lastIsKnown:
			last = netip.PrefixFrom(behind(last.Addr(), new(big.Int).Neg(step)), s.size)
		default:
			s.runs = append(s.runs, run{first.Addr(), s.distance(first.Addr(), last.Addr()) + 1})
			return
		}
	}
}

// distance is the number of blocks from one to another.
func (s *Slots) distance(from, to netip.Addr) uint64 {
	n := between(from, to)
	if n.Rsh(n, uint(from.BitLen()-s.size)); !n.IsUint64() {
		return maxSlots - 1
	}
	return min(n.Uint64(), maxSlots-1)
}

// stride is how many addresses blocks have.
func (s *Slots) stride(of netip.Addr, blocks uint64) *big.Int {
	n := new(big.Int).SetUint64(blocks)
	return n.Lsh(n, uint(of.BitLen()-s.size))
}

func (s *Slots) blockOf(a netip.Addr) Block {
	return netip.PrefixFrom(a, s.size).Masked()
}

// Count returns the number of blocks.
func (s Slots) Count() uint64 {
	var count uint64
	for _, r := range s.runs {
		count += r.count
	}
	return count
}

// At returns the block with the number i, which is below Count.
func (s Slots) At(i uint64) Block {
	for _, r := range s.runs {
		if i < r.count {
			return netip.PrefixFrom(s.at(r, i), s.size)
		}
		i -= r.count
	}
	return Block{}
}

// Index returns the number of a block; false if it is none of these.
func (s Slots) Index(b Block) (uint64, bool) {
	if b.Bits() != s.size || b != b.Masked() {
		return 0, false
	}
	var before uint64
	for _, r := range s.runs {
		if r.first.BitLen() == b.Addr().BitLen() && !b.Addr().Less(r.first) {
			if i := s.distance(r.first, b.Addr()); i < r.count && s.at(r, i) == b.Addr() {
				return before + i, true
			}
		}
		before += r.count
	}
	return 0, false
}

// at returns the first address of the block i of a run.
func (s Slots) at(r run, i uint64) netip.Addr {
	return behind(r.first, s.stride(r.first, i))
}
