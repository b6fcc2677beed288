// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"net/netip"
	"slices"
)

// snapshot is what the kernel has, as far as it concerns the blocks of other hosts.
type snapshot struct {
	links     []link
	addresses []address
	gateways  []netip.Addr
	// routes are those of the main table.
	routes []entry
	// neighbours and forwards are the permanent ones of VXLAN devices that are ours by their names.
	neighbours []neighbour
	forwards   []forward
	// guards are the signatures of those of VXLAN devices, by the device.
	guards map[string]string
}

type link struct {
	device
	kind  string
	index int
	// hasEnd is whether packets go to the end of a tunnel, whatever their next hop. WireGuard selects it by
	// their destination.
	hasEnd bool
	// noIPv6 is whether the interface can have no IPv6. It is known of VXLAN devices only.
	noIPv6 bool
}

type address struct {
	netip.Addr
	device string
	// lasting is whether packets may be from it for as long as the host has it: it is no temporary
	// or deprecated address of IPv6, and one that others can send to.
	lasting bool
}

// hop is how a packet to an address leaves this host.
type hop struct {
	device string
	// gateway is not valid if the address is on the link.
	gateway netip.Addr
}

func (s *snapshot) link(name string) *link {
	i := slices.IndexFunc(s.links, func(l link) bool { return l.name == name })
	if i < 0 {
		return nil
	}
	return &s.links[i]
}

func (s *snapshot) linkOf(a netip.Addr) *link {
	i := slices.IndexFunc(s.addresses, func(own address) bool { return own.Addr == a })
	if i < 0 {
		return nil
	}
	return s.link(s.addresses[i].device)
}
