// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
)

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
