// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/isolation"
)

// TestReach: each address is in the range of exactly the selectors that have it, with prefixes within others, beside them, and at both ends of
// all addresses.
func TestReach(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		selectors := make([]*isolation.Selector, 1+random.IntN(5))
		for i := range selectors {
			selectors[i] = &isolation.Selector{}
			for range random.IntN(4) { // none selects everything
				address := netip.AddrFrom4([4]byte{byte(255 * random.IntN(2)), 255, 255, byte(random.IntN(256))})
				selectors[i].CIDRs = append(selectors[i].CIDRs, netip.PrefixFrom(address, []int{0, 1, 24, 30, 31, 32}[random.IntN(6)]))
			}
		}
		ranges := ip4.reachOf(selectors)
		for _, first := range []byte{0, 127, 128, 255} {
			for last := range 256 {
				address := netip.AddrFrom4([4]byte{first, 255, 255, byte(last)})
				var want, got []int
				for i, s := range selectors {
					if selectsAll(s) || slices.ContainsFunc(s.CIDRs, func(p netip.Prefix) bool { return p.Contains(address) }) {
						want = append(want, i)
					}
				}
				for _, part := range ranges {
					if part.from.Compare(address) <= 0 {
						got = part.rules
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%s is of %v, want %v, of %v: %v", address, got, want, selectors, ranges)
				}
			}
		}
		elements := ranges.elements(nil)
		isOpen := false
		for _, e := range elements {
			if e.IsEnd != isOpen {
				t.Fatalf("a range ends without another, or begins within one: %v", elements)
			}
			isOpen = !e.IsEnd
		}
	}
}
