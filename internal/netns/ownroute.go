// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// OwnRoute is a route of the caller's namespace.
type OwnRoute struct {
	Destination netip.Prefix
	// Interface is empty for a route that leads nowhere.
	Interface string
}

func (r OwnRoute) String() string {
	if r.Interface == "" {
		return r.Destination.String()
	}
	return fmt.Sprintf("%s dev %s", r.Destination, r.Interface)
}

// OwnRoutes returns the routes of all tables of the caller's namespace to something: not default routes, also where they are two
// halves, nor those to loopback, link-local and multicast addresses.
func OwnRoutes() ([]OwnRoute, error) {
	links, err := Whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	names := map[int]string{}
	for _, link := range links {
		names[link.Attrs().Index] = link.Attrs().Name
	}
	var all []OwnRoute
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := Routes(&netlink.Handle{}, family, netlink.Route{Table: unix.RT_TABLE_UNSPEC}, 0, func(r netlink.Route) bool { return leadsSomewhere(r, family) })
		if err != nil {
			return nil, fmt.Errorf("list routes of this network namespace: %w", err)
		}
		for _, r := range routes {
			for _, hop := range nextHops([]netlink.Route{r}) {
				all = append(all, OwnRoute{tableRoute(r, family).Destination, names[hop.LinkIndex]})
			}
		}
	}
	return all, nil
}

func leadsSomewhere(r netlink.Route, family int) bool {
	switch r.Type {
	case unix.RTN_BROADCAST, unix.RTN_ANYCAST, unix.RTN_MULTICAST:
		return false
	}
	to := tableRoute(r, family).Destination
	address := to.Addr()
	return to.Bits() > 1 && !address.IsLoopback() && !address.IsLinkLocalUnicast() && !address.IsMulticast()
}
