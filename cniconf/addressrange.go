// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"math/big"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// AddressRange is a range of host-local. The default start and end are those of the
// subnet; the default gateway is the subnet's first address.
type AddressRange struct {
	Subnet     netip.Prefix `json:"subnet"`
	RangeStart netip.Addr   `json:"rangeStart"`
	RangeEnd   netip.Addr   `json:"rangeEnd"`
	Gateway    netip.Addr   `json:"gateway"`

	// exclude are never assigned; host-local has none.
	exclude []netip.Prefix
	// complete is whether there are no defaults: without a gateway there is none.
	complete bool
}

// contains tells whether the range can assign the address, or has it as its gateway.
func (r AddressRange) contains(address netip.Addr) bool {
	if !r.Subnet.IsValid() || !r.Subnet.Contains(address) {
		return false
	}
	first, last, _ := r.bounds()
	return !address.Less(first) && !last.Less(address)
}

// Size is the number of addresses that the range can assign: all but the gateway. It
// is a big.Int because of IPv6. A range without a subnet, or whose end is before its
// start, has none.
func (r AddressRange) Size() *big.Int { return r.Free(nil) }

// Free is Size without the leased addresses.
func (r AddressRange) Free(leased []netip.Addr) *big.Int {
	if !r.Subnet.IsValid() {
		return new(big.Int)
	}
	first, last, gateway := r.bounds()
	count := distance(first, last)
	unused := slices.Clone(r.exclude)
	if gateway.IsValid() {
		unused = append(unused, netip.PrefixFrom(gateway, gateway.BitLen()))
	}
	inside := func(a netip.Addr) bool { return a.BitLen() == first.BitLen() && !a.Less(first) && !last.Less(a) }
	for _, lease := range leased {
		if inside(lease) && !ipam.AnyContains(unused, lease) {
			count.Sub(count, big.NewInt(1))
		}
	}
	count.Sub(count, covered(unused, first, last))
	if count.Sign() < 0 {
		return new(big.Int)
	}
	return count
}

// distance returns the number of addresses from first to last, which is negative if last is
// before first.
func distance(first, last netip.Addr) *big.Int {
	count := new(big.Int).Sub(number(last), number(first))
	return count.Add(count, big.NewInt(1))
}

// covered returns how many of the addresses from first to last the prefixes have. They may
// overlap.
func covered(prefixes []netip.Prefix, first, last netip.Addr) *big.Int {
	prefixes = slices.Clone(prefixes)
	slices.SortStableFunc(prefixes, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	sum, next := new(big.Int), first
	for _, p := range prefixes {
		from, to := p.Masked().Addr(), ipam.LastOf(p)
		if from.BitLen() != first.BitLen() || to.Less(next) || last.Less(from) {
			continue
		}
		if from.Less(next) {
			from = next
		}
		if last.Less(to) {
			to = last
		}
		sum.Add(sum, distance(from, to))
		if next = to.Next(); !next.IsValid() {
			break
		}
	}
	return sum
}

// bounds are those of host-local's canonical range (its Range.Canonicalize): neither
// the network address nor, for IPv4, the broadcast address is assigned.
func (r AddressRange) bounds() (first, last, gateway netip.Addr) {
	first, last, gateway = r.RangeStart, r.RangeEnd, r.Gateway
	if r.complete {
		return first, last, gateway
	}
	start := r.Subnet.Masked().Addr().Next()
	if !first.IsValid() {
		first = start
	}
	if !gateway.IsValid() {
		gateway = start
	}
	if !last.IsValid() {
		if last = ipam.LastOf(r.Subnet); last.Is4() { // that of broadcasts
			last = last.Prev()
		}
	}
	return first, last, gateway
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }
