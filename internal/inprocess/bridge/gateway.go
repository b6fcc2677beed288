// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"net"
	"slices"

	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
)

// routes tells whether the kernel routes a network to a link by the gateway as an address of the link. It says so in one answer, while
// its listing of addresses goes through all links of the host. False: it may do so nevertheless, as with IPv6.
func routes(link netlink.Link, gateway net.IPNet) bool {
	found, err := netlink.RouteGetWithOptions(ip.NextIP(gateway.IP), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil || len(found) != 1 || found[0].Dst == nil {
		return false
	}
	route, network := found[0], net.IPNet{IP: gateway.IP.Mask(gateway.Mask), Mask: gateway.Mask}
	return route.LinkIndex == link.Attrs().Index && route.Protocol == unix.RTPROT_KERNEL && route.Src.Equal(gateway.IP) && route.Dst.String() == network.String()
}

// servesNetwork tells whether a link with such addresses is the gateway of a network: it has the gateway's IP, and the
// host reaches the network through it. The length of the prefix is the operator's matter.
func servesNetwork(link netlink.Link, present []netlink.Addr, gateway net.IPNet) (bool, error) {
	if hasWide(present, gateway) {
		return true, nil
	}
	if !hasIP(present, gateway.IP) {
		return false, nil
	}
	routes, err := links.RoutesOf(link, unix.RT_TABLE_MAIN)
	return leads(routes, gateway), err
}

// hasWide tells whether an address is there with its own prefix or a shorter one, for which the kernel makes the route.
func hasWide(present []netlink.Addr, address net.IPNet) bool {
	return slices.ContainsFunc(present, func(a netlink.Addr) bool {
		same := a.IPNet.String() == address.String()
		return same || a.IP.Equal(address.IP) && isWithin(address, *a.IPNet) && a.Flags&unix.IFA_F_NOPREFIXROUTE == 0
	})
}

func leads(routes []netlink.Route, network net.IPNet) bool {
	return slices.ContainsFunc(routes, func(route netlink.Route) bool {
		return route.Gw == nil && route.Dst != nil && isWithin(network, *route.Dst)
	})
}

// isWithin tells whether a network is a part of another one, or the same.
func isWithin(network, other net.IPNet) bool {
	ones, bits := network.Mask.Size()
	otherOnes, otherBits := other.Mask.Size()
	return bits == otherBits && otherOnes <= ones && other.Contains(network.IP)
}
