// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
)

// destination is what the kernel tells a route by.
type destination struct {
	to              netip.Prefix
	table, priority int
}

// reached is what the interface of an attachment leads to.
type reached struct {
	network, iface string
	// routes are those that the network is configured with, but for default routes. subnets are those of its addresses, to which the
	// kernel makes routes: those of IPv6 go before others, and those of IPv4 do not.
	routes, subnets []destination
}

func reachedBy(n *cniconf.Network, iface string) reached {
	r := reached{network: n.Name, iface: iface}
	for _, p := range n.Chain() {
		for _, route := range p.Routes() {
			to, err := netip.ParsePrefix(route.Dst)
			if err == nil && to.Bits() > 0 { // the order of networks decides who has the default route
				r.routes = append(r.routes, destination{to.Masked(), route.Table, route.Priority})
			}
		}
	}
	for _, pool := range n.Pools() {
		for _, own := range pool.Ranges() {
			if own.Subnet.Addr().Is4() {
				r.subnets = append(r.subnets, destination{to: own.Subnet.Masked()})
			}
		}
	}
	return r
}

// shared returns the destinations to which both have a route, if one of the two is configured: two networks may be in one subnet.
func (r reached) shared(other reached) []destination {
	return slices.DeleteFunc(slices.Concat(r.routes, r.subnets), func(d destination) bool {
		both := slices.Contains(slices.Concat(other.routes, other.subnets), d)
		return !both || !slices.Contains(slices.Concat(r.routes, other.routes), d)
	})
}

// refuseSharedRoutes refuses a network with a route that another network of the allocation has: with
// IPv6 the kernel would spread connections over both, with IPv4 the last one that is attached would get all.
func (p *Plan) refuseSharedRoutes() error {
	var others []reached
	for _, a := range p.Existing {
		if list, err := cniconf.ParseList(a.ConfList); err == nil { // else it was never attached
			others = append(others, reachedBy(&cniconf.Network{Name: a.Network, List: list}, a.Interface))
		}
	}
	for _, added := range p.Added {
		own := reachedBy(added.network, added.Element.Interface)
		for _, other := range others {
			if shared := own.shared(other); len(shared) > 0 && other.network != own.network {
				return &RequestError{"network", own.network, fmt.Sprintf("its route to %s is one of network %q as %s, too: give one of them another \"priority\", or attach to one", shared[0].to, other.network, other.iface)}
			}
		}
		others = append(others, own)
	}
	return nil
}
