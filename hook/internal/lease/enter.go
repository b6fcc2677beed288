// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/inprocess/ipam"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
)

// enter has an interface have the address and the routes of its lease, and not those of the former one. It is safe to repeat. Default
// routes are changed where the network's was that of the namespace.
func enter(n kernel.Namespace, iface string, l dhcp.Lease) error {
	return within.Path(n.Handle(), func(ns.NetNS) error {
		link, err := links.Find(iface)
		if err == nil && link == nil {
			err = fmt.Errorf("interface %s does not exist in the namespace", iface)
		}
		if err != nil {
			return err
		}
		if err := leave(link, l); err != nil || l.Lost {
			return err
		}
		if err := links.MakeRoom(link, *netns.IPNet(l.Address)); err != nil {
			return err
		}
		if err := netlink.AddrReplace(link, links.Unsearched(*netns.IPNet(l.Address))); err != nil {
			return fmt.Errorf("address %s of %s: %w", l.Address, iface, err)
		}
		for _, r := range routesOf(l, l.HadDefault) {
			if err := netlink.RouteReplace(routeOf(link, r)); err != nil {
				return fmt.Errorf("route to %s via %s of %s: %w", r.Dst.String(), r.GW, iface, err)
			}
		}
		if l.Former != nil && (l.Former.Lost || l.Former.Address != l.Address) {
			_ = acd.Announce(iface, []netip.Addr{l.Address.Addr()}) // without it, hosts that know who had the address find out by themselves
		}
		return nil
	})
}

// leave removes what the former lease gave: first its routes, of which the kernel keeps some, then its address, unless it is the same.
func leave(link netlink.Link, l dhcp.Lease) error {
	if l.Former == nil {
		return nil
	}
	former := *l.Former
	for _, r := range routesOf(former, l.HadDefault) {
		if err := netlink.RouteDel(routeOf(link, r)); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENETUNREACH) {
			return fmt.Errorf("remove the route to %s of %s: %w", r.Dst.String(), link.Attrs().Name, err)
		}
	}
	var gone []netip.Prefix
	if l.Lost || former.Address != l.Address {
		gone = append(gone, former.Address)
	}
	if l.Lost {
		gone = append(gone, l.Address)
	}
	return links.RemoveAddresses(link, gone)
}

// routesOf returns the routes that a lease gives, with default ones only where the network's was that of the namespace.
func routesOf(l dhcp.Lease, hadDefault bool) []*types.Route {
	return slices.DeleteFunc(ipam.LeaseResult(l).Routes, func(r *types.Route) bool { return !hadDefault && isDefault(r) })
}

func routeOf(link netlink.Link, r *types.Route) *netlink.Route {
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: &r.Dst, Gw: r.GW}
	if r.GW == nil {
		route.Scope = netlink.SCOPE_LINK
	}
	return route
}
