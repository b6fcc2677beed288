// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package links

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
)

// maxRoutes is how many routes of a table are compared: a task may make any number.
var maxRoutes = 20_000

// RoutesOf returns the routes of tables through a link.
func RoutesOf(link netlink.Link, tables ...int) ([]netlink.Route, error) {
	return RoutesThrough(link.Attrs().Index, tables...)
}

// RoutesThrough returns the routes of tables through a link, or with index 0 through any.
func RoutesThrough(index int, tables ...int) (all []netlink.Route, err error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	slices.Sort(tables)
	for _, table := range slices.Compact(tables) {
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			found, err := netns.Routes(h, family, netlink.Route{LinkIndex: index, Table: table}, maxRoutes+1, nil)
			if err != nil {
				return nil, err
			}
			if len(found) > maxRoutes {
				return nil, fmt.Errorf("table %d has more than %d routes: those of allocnet are not looked for among so many", table, maxRoutes)
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// HasRoute tells whether one of the routes is the same; see SameRoute.
func HasRoute(present []netlink.Route, route netlink.Route) bool {
	return slices.ContainsFunc(present, func(other netlink.Route) bool { return SameRoute(other, route) })
}

// TableOf is the table that the kernel puts a route into.
func TableOf(route netlink.Route) int { return cmp.Or(route.Table, unix.RT_TABLE_MAIN) }

// SameRoute compares what makes packets take a route, and the source that it gives them. Results
// leave out the rest; the kernel gives its own routes the source that it prefers.
func SameRoute(present, route netlink.Route) bool {
	sameSource := route.Src == nil || route.Protocol == unix.RTPROT_KERNEL || route.Src.Equal(present.Src)
	return present.Table == TableOf(route) && present.Gw.Equal(route.Gw) && sameSource &&
		(route.Priority == 0 || present.Priority == route.Priority) && Destination(present.Dst, present.Family) == Destination(route.Dst, present.Family)
}

// Destination returns a network as text. Lists of routes may have nil for a default route.
func Destination(network *net.IPNet, family int) string {
	switch {
	case network != nil:
		ones, _ := network.Mask.Size()
		return fmt.Sprintf("%s/%d", network.IP, ones)
	case family == netlink.FAMILY_V6:
		return "::/0"
	}
	return "0.0.0.0/0"
}

// RouteText is what people read of a route that a link has to have.
func RouteText(link netlink.Link, route netlink.Route) string {
	text := "route to " + Destination(route.Dst, netlink.FAMILY_V4)
	if ones, _ := route.Dst.Mask.Size(); ones == 0 {
		text = "default route"
	}
	if route.Gw != nil {
		text += " via " + route.Gw.String()
	}
	return text + " of " + link.Attrs().Name
}
