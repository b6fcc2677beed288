// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"net"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
)

// isIPv4 tells the family of an address.
func isIPv4(ip net.IP) bool { return ip.To4() != nil }

// hostNetwork returns the network that has only one address.
func hostNetwork(ip net.IP) net.IPNet {
	bits := 8 * len(netfilter.IPBytes(ip))
	return net.IPNet{IP: ip, Mask: net.CIDRMask(bits, bits)}
}

// addressesOf returns the addresses of a link, or of all if it is nil.
func addressesOf(link netlink.Link, family int) ([]netlink.Addr, error) {
	return netns.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(link, family) })
}
