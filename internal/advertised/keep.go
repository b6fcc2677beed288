// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package advertised keeps what a host has from IPv6 router advertisements.
package advertised

import (
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// Forwarding is the parameter of IPv6 forwarding.
const Forwarding = "net/ipv6/conf/all/forwarding"

// Forward switches IPv6 forwarding on in the caller's namespace, which goes on with what it has from router
// advertisements. It is safe to repeat; errors are of the kernel.
func Forward(sysctls *sysctl.Tree) error {
	if err := Keep(sysctls); err != nil {
		return err
	}
	return sysctls.Set(Forwarding, "1")
}

// Keep has the caller's namespace go on with router advertisements when it forwards. A host that forwards ignores them, and
// the kernel then removes the default route that they gave, unless accept_ra is 2. That is set where accept_ra is 1, on links
// that have routes or addresses from advertisements and on those that lead out of the host: their router may be heard later,
// at boot or after the cable was out. With another value, another program takes care of them. It stays, as forwarding does.
// It is safe to repeat. Source: accept_ra in the kernel's Documentation/networking/ip-sysctl.rst.
func Keep(sysctls *sysctl.Tree) error {
	receive, err := receivers()
	if err != nil {
		return fmt.Errorf("find what router advertisements have given: %w", err)
	}
	links, err := netns.Whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	out := uplinks(links)
	for _, link := range links {
		if !receive[link.Attrs().Index] && !out[link.Attrs().Index] {
			continue
		}
		key := "net/ipv6/conf/" + link.Attrs().Name + "/accept_ra"
		if value, err := sysctls.Get(key); err != nil || value != "1" {
			continue
		}
		if err := sysctls.Set(key, "2"); err != nil {
			return fmt.Errorf("keep router advertisements of %s: %w", link.Attrs().Name, err)
		}
	}
	return nil
}

// uplinks returns the indexes of the links that may lead out of the host, and of the bridges that such a link is a port of.
// What allocations are on is none: an advertisement of a task would give the host a route.
func uplinks(links []netlink.Link) map[int]bool {
	out := map[int]bool{}
	for _, link := range links {
		a := link.Attrs()
		switch link.Type() {
		case "vlan":
			if slices.ContainsFunc(links, func(l netlink.Link) bool { return l.Attrs().Index == a.ParentIndex && l.Type() == "bridge" }) {
				continue // the plugin bridge makes these
			}
			fallthrough
		case "device", "bond", "team":
			out[a.Index] = out[a.Index] || a.Flags&net.FlagLoopback == 0
			out[a.MasterIndex] = out[a.MasterIndex] || out[a.Index]
		case "veth", "macvlan", "ipvlan": // those of a host that is a container itself
			out[a.Index] = a.MasterIndex == 0 && !netns.IsPluginVeth(a.Name)
		}
	}
	return out
}

// receivers returns the indexes of the links that have routes or addresses from router advertisements.
func receivers() (map[int]bool, error) {
	links := map[int]bool{}
	routes, err := netns.Whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Protocol: unix.RTPROT_RA}, netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return nil, err
	}
	for _, route := range routes {
		links[route.LinkIndex] = true
		for _, hop := range route.MultiPath {
			links[hop.LinkIndex] = true
		}
	}
	addresses, err := netns.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V6) })
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if address.Flags&unix.IFA_F_PERMANENT == 0 && address.IP.IsGlobalUnicast() {
			links[address.LinkIndex] = true
		}
	}
	delete(links, 0)
	return links, nil
}
