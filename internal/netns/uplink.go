// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// UplinkMTU returns the smallest MTU of the interfaces by which the caller's namespace sends to elsewhere, over IPv4 and over IPv6,
// and of the routes there; 0 if it has no default route.
func UplinkMTU() (mtu int, err error) {
	for _, far := range []string{"192.0.2.1", "2001:db8::1"} { // of documentation: no host has them
		routes, err := netlink.RouteGet(netip.MustParseAddr(far).AsSlice())
		if err != nil || len(routes) == 0 {
			continue // there is no route
		}
		link, err := netlink.LinkByIndex(routes[0].LinkIndex)
		if err != nil {
			return 0, fmt.Errorf("get the interface of the default route: %w", err)
		}
		one := link.Attrs().MTU
		if routes[0].MTU > 0 {
			one = min(one, routes[0].MTU)
		}
		if mtu == 0 || one < mtu {
			mtu = one
		}
	}
	return mtu, nil
}
