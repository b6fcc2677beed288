// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"math"
	"math/big"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
)

// pool is the address pool of a network with host-local IPAM.
type pool struct{ cniconf.Pool }

// addressPool returns the pool of the first plugin that has one.
func addressPool(n *cniconf.Network) (pool, bool) {
	pools := n.Pools()
	if len(pools) == 0 {
		return pool{}, false
	}
	return pool{pools[0]}, len(pools[0].Sets) > 0
}

// subnets returns the subnets of all ranges, separated by commas.
func (p pool) subnets() string {
	var list []string
	for _, r := range p.Ranges() {
		list = append(list, r.Subnet.String())
	}
	return strings.Join(list, ",")
}

// free returns the number of allocations that can still get an address from every
// range set, at most math.MaxInt32.
func (p pool) free() (int, error) {
	leased, err := p.Leased()
	if err != nil {
		return 0, err
	}
	least := big.NewInt(math.MaxInt32)
	for _, set := range p.Sets {
		sum := new(big.Int)
		for _, r := range set {
			sum.Add(sum, r.Free(leased))
		}
		if sum.Cmp(least) < 0 {
			least = sum
		}
	}
	return int(least.Int64()), nil
}

// configuredMTU returns the mtu of the first plugin that configures one, or 0.
func configuredMTU(n *cniconf.Network) int {
	for _, p := range n.Chain() {
		if mtu := p.FixedMTU(); mtu > 0 {
			return mtu
		}
	}
	return 0
}
