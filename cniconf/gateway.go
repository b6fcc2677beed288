// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"net/netip"
	"slices"
)

// UsesIPAM tells whether a plugin of the network has one of the types of IPAM plugins.
func (n *Network) UsesIPAM(is func(ipam string) bool) bool {
	return slices.ContainsFunc(n.Chain(), func(p Plugin) bool { return is(p.IPAMType) })
}

// Gateways returns the gateways that the IPAM plugins of the network are configured with, other
// than those of pools.
func (n *Network) Gateways() []netip.Addr {
	var all []netip.Addr
	for _, p := range n.Chain() {
		configured := p.addresses()
		for _, a := range configured.Addresses {
			all = append(all, a.Gateway.Unmap())
		}
		for _, r := range configured.Routes {
			all = append(all, r.GW.Unmap())
		}
	}
	return slices.DeleteFunc(all, func(a netip.Addr) bool { return !a.IsValid() })
}

// IsGateway tells whether the host has an address in the network's subnets, and routes for them:
// without a configured gateway it has the first one.
func (n *Network) IsGateway() bool { return slices.ContainsFunc(n.Chain(), Plugin.isGateway) }
