// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"math/big"
	"net/netip"
)

// numberOf returns an address as a number.
func numberOf(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// behind returns the address that is so many addresses after another one of its family, which has it.
func behind(a netip.Addr, n *big.Int) netip.Addr {
	number := new(big.Int).Add(numberOf(a), n)
	found, _ := netip.AddrFromSlice(number.FillBytes(a.AsSlice())) // of its length
	return found
}

// between returns how many addresses one is after another.
func between(from, to netip.Addr) *big.Int { return new(big.Int).Sub(numberOf(to), numberOf(from)) }

// LastOf returns the last address of a prefix; not valid for one that is not.
func LastOf(p netip.Prefix) netip.Addr {
	if !p.IsValid() {
		return netip.Addr{}
	}
	size := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
	return behind(p.Masked().Addr(), size.Sub(size, big.NewInt(1)))
}
