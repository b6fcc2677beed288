// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// number is an address as an unsigned number of 128 bits; an IPv4 address as it is mapped to
// IPv6.
type number struct{ high, low uint64 }

func numberOf(a netip.Addr) number {
	b := a.As16()
	return number{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (n number) addr(f Family) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], n.high)
	binary.BigEndian.PutUint64(b[8:], n.low)
	a := netip.AddrFrom16(b)
	if f == IPv4 {
		return a.Unmap()
	}
	return a
}

func (n number) plus(m number) number {
	low, carry := bits.Add64(n.low, m.low, 0)
	high, _ := bits.Add64(n.high, m.high, carry)
	return number{high, low}
}

func (n number) minus(m number) number {
	low, borrow := bits.Sub64(n.low, m.low, 0)
	high, _ := bits.Sub64(n.high, m.high, borrow)
	return number{high, low}
}

// shifted returns n * 2^by; a negative by divides.
func (n number) shifted(by int) number {
	switch {
	case by >= 64:
		return number{high: n.low << (by - 64)}
	case by >= 0:
		return number{n.high<<by | n.low>>(64-by), n.low << by}
	case by > -64:
		return number{n.high >> -by, n.low>>-by | n.high<<(64+by)}
	}
	return number{low: n.high >> (-by - 64)}
}

// saturated returns n, or most if n is more.
func (n number) saturated(most uint64) uint64 {
	if n.high > 0 {
		return most
	}
	return min(n.low, most)
}

// LastOf returns the last address of a prefix.
func LastOf(p netip.Prefix) netip.Addr {
	all := number{^uint64(0), ^uint64(0)}
	if host := p.Addr().BitLen() - p.Bits(); host < 128 {
		all = number{low: 1}.shifted(host).minus(number{low: 1})
	}
	return numberOf(p.Masked().Addr()).plus(all).addr(FamilyOf(p.Addr()))
}
