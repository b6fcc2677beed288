// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"errors"
	"math/big"
	"net/netip"
)

// Usage counts the addresses of one family in the pools of a network: those of host-local and
// of allocnet-ipam. An IPv6 range would hide that of IPv4 in a sum.
type Usage struct {
	// Family is "ipv4" or "ipv6".
	Family string `json:"family"`
	// Used is the number of addresses that have a lease on this host.
	Used int `json:"used"`
	// Total is the number of addresses that the plugin can assign. That of an IPv6
	// subnet can exceed 64 bits.
	Total *big.Int `json:"total"`
}

// Usage counts each family that has an address, IPv4 first. Pools of other IPAM plugins
// are unknown. With an error, leases that could not be read are not counted.
func (n *Network) Usage() ([]Usage, error) {
	v4, v6 := Usage{"ipv4", 0, new(big.Int)}, Usage{"ipv6", 0, new(big.Int)}
	of := func(a netip.Addr) *Usage {
		if a.Is4() {
			return &v4
		}
		return &v6
	}
	var failed error
	for _, p := range n.Pools() {
		for _, r := range p.Ranges() {
			u := of(r.Subnet.Addr())
			u.Total.Add(u.Total, r.Size())
		}
		leased, err := p.Leased()
		failed = errors.Join(failed, err)
		for _, address := range leased {
			of(address).Used++
		}
	}
	var usage []Usage
	for _, u := range []Usage{v4, v6} {
		if u.Total.Sign() > 0 {
			usage = append(usage, u)
		}
	}
	return usage, failed
}
