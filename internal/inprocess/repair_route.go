// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
)

// ensureRoutes gives the interface the routes that it lacks: those to the networks of its
// addresses, which the kernel made, and those of the result. Without the addresses the kernel
// takes none.
func (c *call) ensureRoutes(link netlink.Link, result *current.Result, how insideRepair) error {
	tables := []int{unix.RT_TABLE_MAIN}
	for _, route := range result.Routes {
		if route.Table != nil {
			tables = append(tables, *route.Table)
		}
	}
	present, err := routesOf(link, tables...)
	if err != nil {
		return err
	}
	ipv6Off := c.isIPv6Off()
	if how.direct {
		for _, address := range c.own(result) {
			if ipv6Off && !isIPv4(address.Address.IP) {
				continue
			}
			if err := c.repair.ensureDirect(link, present, address.Address); err != nil {
				return err
			}
		}
	}
	if how.extra != nil {
		if err := how.extra(link, present); err != nil {
			return err
		}
	}
	for _, route := range result.Routes {
		if ipv6Off && !isIPv4(route.Dst.IP) {
			continue
		}
		if err := c.repair.ensureUnopposed(link, present, c.route(link, route, result)); err != nil {
			return err
		}
	}
	return nil
}

// ensureUnopposed makes a route unless there is another one to the same destination: a task has
// replaced it by that of a tunnel, for example, and packets must not take both.
func (r *Repair) ensureUnopposed(link netlink.Link, present []netlink.Route, route netlink.Route) error {
	if hasRoute(present, route) {
		return nil
	}
	all, err := routesThrough(0, tableOf(route))
	if err != nil {
		return err
	}
	for _, other := range all {
		if isIPv4(route.Dst.IP) != (other.Family == netlink.FAMILY_V4) || destination(other.Dst, other.Family) != destination(route.Dst, other.Family) {
			continue
		}
		if slices.ContainsFunc(other.MultiPath, func(hop *netlink.NexthopInfo) bool { return hop.LinkIndex == route.LinkIndex && hop.Gw.Equal(route.Gw) }) {
			return nil
		}
		if other.LinkIndex != route.LinkIndex || !other.Gw.Equal(route.Gw) {
			return fmt.Errorf("%s is missing, and there is another one, %s: remove one of them", routeText(link, route), hopText(other))
		}
	}
	return r.ensureRoute(link, present, route)
}

// hopText is where a route leads.
func hopText(route netlink.Route) string {
	if len(route.MultiPath) > 0 {
		return "with several next hops"
	}
	text := ""
	if route.Gw != nil {
		text = "via " + route.Gw.String() + " "
	}
	return text + "dev " + linkName(route.LinkIndex)
}

// maxRoutes is how many routes of a table are compared: a task may make any number.
const maxRoutes = 20_000

// routesOf returns the routes of tables through a link.
func routesOf(link netlink.Link, tables ...int) ([]netlink.Route, error) {
	return routesThrough(link.Attrs().Index, tables...)
}

// routesThrough returns the routes of tables through a link, or with index 0 through any.
func routesThrough(index int, tables ...int) (all []netlink.Route, err error) {
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

// ensureDirect makes the route to the network of an address that the kernel makes with it. One that is there may have
// any metric: an operator chooses it with the address.
func (r *Repair) ensureDirect(link netlink.Link, present []netlink.Route, address net.IPNet) error {
	ones, bits := address.Mask.Size()
	if ones == bits {
		return nil
	}
	network := &net.IPNet{IP: address.IP.Mask(address.Mask), Mask: address.Mask}
	route := netlink.Route{LinkIndex: link.Attrs().Index, Dst: network, Protocol: unix.RTPROT_KERNEL}
	if hasRoute(present, route) {
		return nil
	}
	if isIPv4(address.IP) {
		route.Scope, route.Src = netlink.SCOPE_LINK, address.IP
	} else {
		route.Priority = directMetric
	}
	return r.ensureRoute(link, present, route)
}

// directMetric is the metric of the kernel's IPv6 routes to the networks of addresses.
const directMetric = 256

// route returns a route of a result, as package ipam of the reference plugins makes it.
func (c *call) route(link netlink.Link, r *types.Route, result *current.Result) netlink.Route {
	route := netlink.Route{LinkIndex: link.Attrs().Index, Dst: &r.Dst, Gw: r.GW, Priority: r.Priority}
	for _, address := range c.own(result) {
		if route.Gw == nil && address.Gateway != nil && isIPv4(address.Gateway) == isIPv4(r.Dst.IP) {
			route.Gw = address.Gateway
		}
	}
	if r.Table != nil {
		route.Table = *r.Table
	}
	if r.Scope != nil {
		route.Scope = netlink.Scope(*r.Scope)
	}
	return route
}

// ensureRoute makes a route unless there is one to the same destination by the same gateway.
func (r *Repair) ensureRoute(link netlink.Link, present []netlink.Route, route netlink.Route) error {
	if hasRoute(present, route) {
		return nil
	}
	return r.ensure(routeText(link, route), func() error {
		err := netlink.RouteAddEcmp(&route)
		if errors.Is(err, unix.EEXIST) { // without its source, or the kernel made it with the link or the address
			return netlink.RouteReplace(&route)
		}
		return err
	})
}

func hasRoute(present []netlink.Route, route netlink.Route) bool {
	return slices.ContainsFunc(present, func(other netlink.Route) bool { return sameRoute(other, route) })
}

// tableOf is the table that the kernel puts a route into.
func tableOf(route netlink.Route) int { return cmp.Or(route.Table, unix.RT_TABLE_MAIN) }

// sameRoute compares what makes packets take a route, and the source that it gives them. Results
// leave out the rest; the kernel gives its own routes the source that it prefers.
func sameRoute(present, route netlink.Route) bool {
	sameSource := route.Src == nil || route.Protocol == unix.RTPROT_KERNEL || route.Src.Equal(present.Src)
	return present.Table == tableOf(route) && present.Gw.Equal(route.Gw) && sameSource &&
		(route.Priority == 0 || present.Priority == route.Priority) && destination(present.Dst, present.Family) == destination(route.Dst, present.Family)
}

// destination returns a network as text. Lists of routes may have nil for a default route.
func destination(network *net.IPNet, family int) string {
	switch {
	case network != nil:
		ones, _ := network.Mask.Size()
		return fmt.Sprintf("%s/%d", network.IP, ones)
	case family == netlink.FAMILY_V6:
		return "::/0"
	}
	return "0.0.0.0/0"
}

func routeText(link netlink.Link, route netlink.Route) string {
	text := "route to " + destination(route.Dst, netlink.FAMILY_V4)
	if ones, _ := route.Dst.Mask.Size(); ones == 0 {
		text = "default route"
	}
	if route.Gw != nil {
		text += " via " + route.Gw.String()
	}
	return text + " of " + link.Attrs().Name
}
