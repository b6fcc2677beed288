// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package advertised keeps what a host has from IPv6 router advertisements.
package advertised

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sysctl"
)

// Forwarding is the parameter of IPv6 forwarding.
const Forwarding = "net/ipv6/conf/all/forwarding"

// Forward switches IPv6 forwarding on in the caller's namespace, which goes on with what it has from router
// advertisements. It is safe to repeat; errors are of the kernel.
func Forward(sysctls *sysctl.Tree) error {
	if err := keep(sysctls); err != nil {
		return err
	}
	return sysctls.Set(Forwarding, "1")
}

// keep has the caller's namespace go on with the routes and addresses that it has from router advertisements, also
// when it forwards. A host that forwards ignores these, and the kernel then removes its default route, unless
// accept_ra is 2. That is set for each link that has any and whose accept_ra is 1; with another value, another
// program takes care of them. It stays, as forwarding does. It is safe to repeat. Source: accept_ra in the kernel's
// Documentation/networking/ip-sysctl.rst.
func keep(sysctls *sysctl.Tree) error {
	links, err := receivers()
	if err != nil {
		return fmt.Errorf("find what router advertisements have given: %w", err)
	}
	for index := range links {
		link, err := netlink.LinkByIndex(index)
		if err != nil {
			continue // it is gone, with its routes
		}
		key := "net/ipv6/conf/" + link.Attrs().Name + "/accept_ra"
		if value, err := sysctls.Get(key); err != nil || value != "1" {
			continue
		}
		if err := sysctls.Set(key, "2"); err != nil {
			return fmt.Errorf("keep what router advertisements have given %s: %w", link.Attrs().Name, err)
		}
	}
	return nil
}

// receivers returns the indexes of the links that have routes or addresses from router advertisements.
func receivers() (map[int]bool, error) {
	links := map[int]bool{}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Protocol: unix.RTPROT_RA}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, err
	}
	for _, route := range routes {
		links[route.LinkIndex] = true
		for _, hop := range route.MultiPath {
			links[hop.LinkIndex] = true
		}
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_V6)
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
