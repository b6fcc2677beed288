// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"math/big"
	"net/netip"

	"github.com/allocnet/allocnet/cniconf"
)

// pool has the size and the leases of one address family of a network.
type pool struct {
	family string // "ipv4" or "ipv6"
	size   float64
	used   int
}

// poolsOf returns the host-local pools of a network. The pools of other IPAM plugins
// are unknown.
func poolsOf(n *cniconf.Network) []pool {
	v4, v6 := pool{family: "ipv4"}, pool{family: "ipv6"}
	of := func(a netip.Addr) *pool {
		if a.Is4() {
			return &v4
		}
		return &v6
	}
	for _, p := range n.Pools() {
		for _, r := range p.Ranges() {
			size, _ := new(big.Float).SetInt(r.Size()).Float64()
			of(r.Subnet.Addr()).size += size
		}
		leased, _ := p.Leased() // what cannot be read is not counted
		for _, address := range leased {
			of(address).used++
		}
	}
	var pools []pool
	for _, p := range []pool{v4, v6} {
		if p.size > 0 {
			pools = append(pools, p)
		}
	}
	return pools
}
