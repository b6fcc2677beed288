// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import "net/netip"

// gatewayBits limits the routes of an attachment for IPv6: so much longer than the subnet's is
// the prefix around the gateway that stays on the link.
const gatewayBits = 4

// GatewayRoute is a part of a pool's subnet that attachments reach through the gateway.
type GatewayRoute struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}

// GatewayRoutes returns the routes of attachments for the subnets of a pool whose mode is not
// flat, where the other addresses are not on the link. They are more specific than the kernel's
// own route for the subnet, which stays for the gateway. IPv6 refuses each route whose gateway
// is behind a gateway, also later ones that others add: so the prefix around the gateway has
// none, and no attachment an address of it. IPv4 looks for gateways on links only.
func (c *Config) GatewayRoutes() []GatewayRoute {
	if c.Mode == ModeFlat {
		return nil
	}
	var all []GatewayRoute
	for _, subnet := range c.Subnets() {
		gateway := c.gatewayOf(subnet)
		around := aroundGateway(subnet, gateway)
		for bits := subnet.Bits() + 1; bits <= around.Bits(); bits++ {
			all = append(all, GatewayRoute{sibling(netip.PrefixFrom(gateway, bits).Masked()), gateway})
		}
		if gateway.Is4() {
			all = append(all, GatewayRoute{around, gateway})
		}
	}
	return all
}

// gatewayOf returns the gateway of the ranges of a subnet, which have one if the mode is not flat.
func (c *Config) gatewayOf(subnet netip.Prefix) netip.Addr {
	for i := range c.Ranges {
		if c.Ranges[i].Subnet == subnet {
			return c.Ranges[i].Gateway
		}
	}
	return netip.Addr{}
}

// aroundGateway returns the prefix around a gateway that has a route of its own or none.
func aroundGateway(subnet netip.Prefix, gateway netip.Addr) netip.Prefix {
	bits := subnet.Bits() + 1
	if gateway.Is6() {
		bits = min(subnet.Bits()+gatewayBits, gateway.BitLen())
	}
	return netip.PrefixFrom(gateway, bits).Masked()
}

// sibling returns the other half of the prefix that is one bit shorter.
func sibling(p netip.Prefix) netip.Prefix {
	if shorter := netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked(); shorter.Addr() != p.Addr() {
		return netip.PrefixFrom(shorter.Addr(), p.Bits())
	}
	return netip.PrefixFrom(LastOf(p).Next(), p.Bits())
}

// keepGateway starts a range of IPv6 behind the prefix around its gateway, or ends it before, if
// the configuration has no start or end of its own.
func (r *Range) keepGateway() {
	if !r.Subnet.Addr().Is6() || !hasNetworkAddress(r.Subnet) {
		return
	}
	gateway := r.Gateway
	if !gateway.IsValid() {
		gateway, _ = r.bounds()
	}
	around := aroundGateway(r.Subnet, gateway)
	if !r.Start.IsValid() && around.Contains(r.Subnet.Addr()) {
		r.Start = LastOf(around).Next()
	}
	if last := LastOf(r.Subnet); !r.End.IsValid() && around.Contains(last) {
		r.End = around.Addr().Prev()
	}
}
