// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/internal/netns"
)

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
		for _, h.Address = range p.gateways(n.Name) {
			all = append(all, h)
		}
	}
	return all
}

// gateways returns those of the subnets of the plugin in a network. A bridge takes the first address where none is configured.
func (p Plugin) gateways(network string) (all []netip.Prefix) {
	if pool, ok := p.pool(network); ok {
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

// SubnetConflict is an address that an attachment gives the host, in a subnet that another link of the host has: the host
// would no longer reach what is there, such as its router, whose address it may even be.
type SubnetConflict struct {
	HostAddress

	// Link has the subnet.
	Link string
	// Exists is whether the bridge has the address already.
	Exists bool
}

func (c SubnetConflict) String() string {
	gets := "the host's ends of its attachments get"
	if c.Bridge != "" {
		gets = "the bridge " + c.Bridge + " gets"
	}
	return fmt.Sprintf("%s the address %s, and %s is the subnet of %s of this host, which would lose its way to what is there",
		gets, c.Address.Addr(), c.Address.Masked(), c.Link)
}

// SubnetConflicts returns those of the network with the links of the host. A link that is down has no route to its subnet.
func (n *Network) SubnetConflicts(links []netns.Interface) []SubnetConflict {
	var all []SubnetConflict
	for _, own := range n.HostAddresses() {
		exists := slices.ContainsFunc(links, func(l netns.Interface) bool {
			return own.Bridge != "" && l.IsNamed(own.Bridge) && slices.Contains(l.Addresses, own.Address)
		})
		for _, link := range links {
			if link.Up && !link.IsNamed(own.Bridge) && hasSubnet(link, own) {
				all = append(all, SubnetConflict{own, link.Name, exists})
			}
		}
	}
	return all
}

// hasSubnet tells whether a link has the subnet of an address, as a route of its own: not where it has that address alone. ptp
// adds no route to the subnet, so that an operator may have it use the address that the host has on that link.
func hasSubnet(link netns.Interface, own HostAddress) bool {
	if own.Address.IsSingleIP() || own.Bridge == "" && slices.Contains(link.Addresses, own.Address) {
		return false
	}
	return slices.ContainsFunc(link.Addresses, func(a netip.Prefix) bool { return a.Masked() == own.Address.Masked() })
}
