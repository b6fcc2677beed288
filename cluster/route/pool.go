// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Pool is what a table has to know of a pool whose mode is not flat.
type Pool struct {
	Name    string
	Mode    ipam.Mode
	Subnets []netip.Prefix
	// BlockSize is that of all blocks.
	BlockSize ipam.BlockSize
	// Gateways are addresses that all hosts of the pool have.
	Gateways []netip.Addr
	VXLAN    ipam.VXLAN
}

// PoolOf returns a pool by its configuration.
func PoolOf(c *ipam.Config) Pool {
	p := Pool{Name: c.Pool, Mode: c.Mode, Subnets: c.Subnets(), BlockSize: c.BlockSize, VXLAN: c.VXLAN}
	for i := range c.Ranges {
		if g := c.Ranges[i].Gateway; g.IsValid() && !slices.Contains(p.Gateways, g) {
			p.Gateways = append(p.Gateways, g)
		}
	}
	return p
}

// blockBits is the prefix length of blocks of the family.
func (p Pool) blockBits(of netip.Prefix) int {
	if of.Addr().Is4() {
		return p.BlockSize.IPv4
	}
	return p.BlockSize.IPv6
}

func (p Pool) has(a netip.Addr) bool { return ipam.AnyContains(p.Subnets, a) }

// divides is whether a network is a part of one of the subnets, and larger than a block.
func (p Pool) divides(network netip.Prefix) bool {
	return network.Bits() < p.blockBits(network) && slices.ContainsFunc(p.Subnets, func(s netip.Prefix) bool {
		return s.Bits() < network.Bits() && s.Contains(network.Addr())
	})
}

// Target is a block of another host.
type Target struct {
	Block netip.Prefix
	// Node is the host's name for reports.
	Node     string
	Endpoint ipam.Endpoint
}
