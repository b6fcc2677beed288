// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import "net/netip"

// Family is 4 or 6.
type Family int

// The families of addresses.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

func (f Family) bits() int {
	if f == IPv4 {
		return 32
	}
	return 128
}
