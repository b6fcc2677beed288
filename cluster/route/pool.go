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

// State is what became of a target.
type State string

// The states of targets.
const (
	// Installed is a target whose route the kernel has.
	Installed State = "installed"
	// Refused is a target that is not safe, or that cannot be reached in the pool's mode.
	Refused State = "refused"
	// Conflict is a target for whose block the kernel has a route that is not ours.
	Conflict State = "conflict"
	// Replaced is a target with this host's address: this host replaces another one, or has lost its records.
	// There is nothing to route.
	Replaced State = "replaced"
	// Failed is a target whose route the kernel did not accept.
	Failed State = "failed"
)

// Route is the route to a target.
type Route struct {
	Block netip.Prefix
	Node  string
	// Via is the next hop, and Device the name of the interface. Of a refused target they may be
	// missing.
	Via    netip.Addr
	Device string
	// Mode is ipam.ModeRouted or ipam.ModeVXLAN. Of a refused target it may be missing.
	Mode  ipam.Mode
	State State
	// Reason is why the state is not Installed.
	Reason string
}

// Report is what Apply found and did.
type Report struct {
	// Routes are those to the targets, in the order of these.
	Routes []Route
	// Unguarded is why not all is dropped that is not of the pool's hosts; see guard. Nil: it is.
	Unguarded error
	// Added, Replaced and Removed count changes of the kernel's tables: routes, neighbours, forwarding
	// databases and devices.
	Added, Replaced, Removed int
}
