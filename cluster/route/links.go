// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
)

// Links returns the interfaces of this host by which the blocks of other hosts are routed. A block to which it has no route, or which is
// unreachable, has none.
func Links() (map[netip.Prefix]string, error) {
	links, err := netns.Whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	all := map[netip.Prefix]string{}
	ours := &netlink.Route{Table: unix.RT_TABLE_MAIN, Protocol: Protocol}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netns.Whole(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, ours, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
		})
		if isOff(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			if e := entriesOf(r, names)[0]; !e.unreachable && e.device != "" {
				all[e.prefix] = e.device
			}
		}
	}
	return all, nil
}
