// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import "net/netip"

// HostAddress is an address that a plugin gives the host in a subnet of a network: that of a gateway.
type HostAddress struct {
	// Bridge is the link that gets it, with a route to the subnet. Empty: the host's ends of pairs (ptp) get it, without one.
	Bridge string
	// Address has the length of the subnet.
	Address netip.Prefix
}

// HostAddresses returns those of the network that are known before an attachment: not those of DHCP.
func (n *Network) HostAddresses() []HostAddress {
	var all []HostAddress
	for _, p := range n.Chain() {
		if !p.isGateway() {
			continue
		}
		h := HostAddress{}
		if p.Type == "bridge" {
			h.Bridge = p.Bridge
		}
		for _, h.Address = range n.gatewaysOf(p) {
			all = append(all, h)
		}
	}
	return all
}

// gatewaysOf returns the gateways of the subnets of a plugin. A bridge takes the first address where none is configured.
func (n *Network) gatewaysOf(p Plugin) (all []netip.Prefix) {
	if pool, ok := n.poolOf(p); ok {
		for _, r := range pool.Ranges() {
			if !r.Subnet.IsValid() {
				continue
			}
			if _, _, gateway := r.bounds(); gateway.IsValid() {
				all = append(all, netip.PrefixFrom(gateway, r.Subnet.Bits()))
			}
		}
		return all
	}
	for _, a := range p.addresses().Addresses {
		address, err := netip.ParsePrefix(a.Address)
		if err != nil { // the plugin reports the mistake
			continue
		}
		gateway := a.Gateway.Unmap()
		if !gateway.IsValid() && p.Type == "bridge" {
			gateway = address.Masked().Addr().Next()
		}
		if gateway.IsValid() {
			all = append(all, netip.PrefixFrom(gateway, address.Bits()))
		}
	}
	return all
}
