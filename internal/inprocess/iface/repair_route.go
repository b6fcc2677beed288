// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
)

// ensureRoutes gives the interface the routes that it lacks: those to the networks of its
// addresses, which the kernel made, and those of the result. Without the addresses the kernel
// takes none.
func ensureRoutes(c *plugin.Call, link netlink.Link, result *current.Result, how How) error {
	tables := []int{unix.RT_TABLE_MAIN}
	for _, route := range result.Routes {
		if route.Table != nil {
			tables = append(tables, *route.Table)
		}
	}
	present, err := links.RoutesOf(link, tables...)
	if err != nil {
		return err
	}
	ipv6Off := isIPv6Off(c)
	if how.Direct {
		for _, address := range Addresses(c, result) {
			if ipv6Off && !links.IsIPv4(address.Address.IP) {
				continue
			}
			if err := ensureDirect(c.Repair, link, present, address.Address); err != nil {
				return err
			}
		}
	}
	if how.Extra != nil {
		if err := how.Extra(link, present); err != nil {
			return err
		}
	}
	for _, route := range result.Routes {
		if ipv6Off && !links.IsIPv4(route.Dst.IP) {
			continue
		}
		if err := ensureUnopposed(c.Repair, link, present, routeOf(c, link, route, result)); err != nil {
			return err
		}
	}
	return nil
}

// ensureUnopposed makes a route unless there is another one to the same destination: a task has
// replaced it by that of a tunnel, for example, and packets must not take both.
func ensureUnopposed(r *remedy.Repair, link netlink.Link, present []netlink.Route, route netlink.Route) error {
	if links.HasRoute(present, route) {
		return nil
	}
	all, err := links.RoutesThrough(0, links.TableOf(route))
	if err != nil {
		return err
	}
	for _, other := range all {
		if links.IsIPv4(route.Dst.IP) != (other.Family == netlink.FAMILY_V4) || links.Destination(other.Dst, other.Family) != links.Destination(route.Dst, other.Family) {
			continue
		}
		if slices.ContainsFunc(other.MultiPath, func(hop *netlink.NexthopInfo) bool { return hop.LinkIndex == route.LinkIndex && hop.Gw.Equal(route.Gw) }) {
			return nil
		}
		if other.LinkIndex != route.LinkIndex || !other.Gw.Equal(route.Gw) {
			return fmt.Errorf("%s is missing, and there is another one, %s: remove one of them", links.RouteText(link, route), hopText(other))
		}
	}
	return EnsureRoute(r, link, present, route)
}

func hopText(route netlink.Route) string {
	if len(route.MultiPath) > 0 {
		return "with several next hops"
	}
	text := ""
	if route.Gw != nil {
		text = "via " + route.Gw.String() + " "
	}
	return text + "dev " + links.NameOf(route.LinkIndex)
}

// ensureDirect makes the route to the network of an address that the kernel makes with it. One that is there may have
// any metric: an operator chooses it with the address.
func ensureDirect(r *remedy.Repair, link netlink.Link, present []netlink.Route, address net.IPNet) error {
	ones, bits := address.Mask.Size()
	if ones == bits {
		return nil
	}
	network := &net.IPNet{IP: address.IP.Mask(address.Mask), Mask: address.Mask}
	route := netlink.Route{LinkIndex: link.Attrs().Index, Dst: network, Protocol: unix.RTPROT_KERNEL}
	if links.HasRoute(present, route) {
		return nil
	}
	if links.IsIPv4(address.IP) {
		route.Scope, route.Src = netlink.SCOPE_LINK, address.IP
	} else {
		route.Priority = directMetric
	}
	return EnsureRoute(r, link, present, route)
}

// directMetric is the metric of the kernel's IPv6 routes to the networks of addresses.
const directMetric = 256

// routeOf returns a route of a result, as package ipam of the reference plugins makes it.
func routeOf(c *plugin.Call, link netlink.Link, r *types.Route, result *current.Result) netlink.Route {
	route := netlink.Route{LinkIndex: link.Attrs().Index, Dst: &r.Dst, Gw: r.GW, Priority: r.Priority}
	for _, address := range Addresses(c, result) {
		if route.Gw == nil && address.Gateway != nil && links.IsIPv4(address.Gateway) == links.IsIPv4(r.Dst.IP) {
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

// EnsureRoute makes a route unless there is one to the same destination by the same gateway.
func EnsureRoute(r *remedy.Repair, link netlink.Link, present []netlink.Route, route netlink.Route) error {
	if links.HasRoute(present, route) {
		return nil
	}
	return r.Ensure(links.RouteText(link, route), func() error {
		err := netlink.RouteAddEcmp(&route)
		if errors.Is(err, unix.EEXIST) { // without its source, or the kernel made it with the link or the address
			return netlink.RouteReplace(&route)
		}
		return err
	})
}
