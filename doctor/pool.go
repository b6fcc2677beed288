// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"math/big"
	"net/netip"

	"github.com/allocnet/allocnet/cleanup"
)

// Pool is what a network has to give out.
type Pool struct {
	Network string `json:"network"`
	Used    int    `json:"used"`
	// Total is the number of addresses that host-local gives out; IPv6 ones
	// can be more than any integer of the machine.
	Total *big.Int `json:"total"`
}

// nearlyFull is the part of a pool, in percent, above which it is.
const nearlyFull = 90

func pools(r *Report, networks []network, found *cleanup.Found) {
	used := map[string]int{}
	for _, o := range found.Objects {
		if o.Kind == cleanup.Lease {
			used[o.Owner.Network]++
		}
	}
	for _, n := range networks {
		if len(n.ranges) == 0 {
			continue
		}
		p := Pool{Network: n.Name, Used: used[n.Name], Total: new(big.Int)}
		for _, a := range n.ranges {
			p.Total.Add(p.Total, a.size())
		}
		r.Pools = append(r.Pools, p)
		full := new(big.Int).Div(new(big.Int).Mul(p.Total, big.NewInt(nearlyFull)), big.NewInt(100))
		if big.NewInt(int64(p.Used)).Cmp(full) >= 0 {
			r.wrong(n.Path, fmt.Sprintf("network %q has given out %d of %s addresses", n.Name, p.Used, p.Total),
				"allocnet gc, or a larger subnet")
		}
	}
}

// size counts what host-local gives out: the range, else the subnet without its
// first address and, for IPv4, its last; and not the gateway, which is the
// first of the rest unless it is configured.
func (a addressRange) size() *big.Int {
	if !a.Subnet.IsValid() {
		return new(big.Int)
	}
	first, last := a.Subnet.Masked().Addr().Next(), lastAddress(a.Subnet)
	gateway := a.Gateway
	if !gateway.IsValid() {
		gateway = first
	}
	if a.RangeStart.IsValid() {
		first = a.RangeStart
	}
	if a.RangeEnd.IsValid() {
		last = a.RangeEnd
	}
	n := new(big.Int).Sub(number(last), number(first))
	n.Add(n, big.NewInt(1))
	if !gateway.Less(first) && !last.Less(gateway) {
		n.Sub(n, big.NewInt(1))
	}
	return n
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// lastAddress is the last that can be given out: IPv4 has its broadcast after
// it.
func lastAddress(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes) // of the length it came in
	if last.Is4() {
		return last.Prev()
	}
	return last
}
