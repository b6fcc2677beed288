// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"bytes"
	"encoding/binary"
	"iter"
	"net/netip"
	"slices"
)

// HasLegacy tells whether a table has a chain or, if the address is valid, a rule in it whose source or destination that address is.
func HasLegacy(family Family, table, chain string, address netip.Addr) (bool, error) {
	tables, err := LegacyTables(family)
	if err != nil || !slices.Contains(tables, table) {
		return false, err
	}
	entries, err := ReadLegacy(family, table)
	if err != nil {
		return false, err
	}
	for rule := range legacyRules(family, entries, chain) { // a chain has one: its policy
		if !address.IsValid() || hasAddress(rule, address) {
			return true, nil
		}
	}
	return false, nil
}

// Sizes and offsets of an entry: the addresses come first, the source before the destination; the target's offset and
// the entry's size after them. The name of a target is behind its own size, and that of a chain behind its target.
const (
	sizeofIP4, sizeofIP6 = 84, 136
	targetName           = 2
	targetSize           = 32
)

// legacyRules yields the rules of a chain as ReadLegacy returns them.
func legacyRules(family Family, entries []byte, chain string) iter.Seq[[]byte] {
	offsets := sizeofIP4 + 4
	if family == IPv6 {
		offsets = sizeofIP6 + 4
	}
	return func(yield func([]byte) bool) {
		inChain := false
		for len(entries) > offsets+4 {
			target := int(binary.NativeEndian.Uint16(entries[offsets:]))
			size := int(binary.NativeEndian.Uint16(entries[offsets+2:]))
			if target < offsets+4 || target+targetSize > size || size > len(entries) {
				return
			}
			entry := entries[:size]
			entries = entries[size:]
			if begins := cText(entry[target+targetName:]) == "ERROR"; begins {
				inChain = cText(entry[target+targetSize:]) == chain
			} else if inChain && !yield(entry) {
				return
			}
		}
	}
}

// cText returns what is before the first zero.
func cText(data []byte) string {
	before, _, _ := bytes.Cut(data, []byte{0})
	return string(before)
}

// hasAddress tells whether the source or the destination of a rule is an address alone.
func hasAddress(rule []byte, address netip.Addr) bool {
	ip := address.AsSlice()
	n := len(ip)
	full := bytes.Repeat([]byte{0xff}, n)
	return bytes.Equal(rule[:n], ip) && bytes.Equal(rule[2*n:3*n], full) ||
		bytes.Equal(rule[n:2*n], ip) && bytes.Equal(rule[3*n:4*n], full)
}
