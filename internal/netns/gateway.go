// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// GatewayMACs returns the gateways that are neighbours of the caller's namespace, by their MACs as far as the kernel knows these: the
// gateways of its default routes, and those given.
func GatewayMACs(gateways []netip.Addr) (map[string]netip.Addr, error) {
	own := &Namespace{path: "this network namespace", link: &netlink.Handle{}}
	routes, err := own.DefaultRoutes()
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		gateways = append(gateways, r.Gateway)
	}
	neighbours, err := Whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(0, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	known := map[string]netip.Addr{}
	for _, n := range neighbours {
		if address, ok := netip.AddrFromSlice(n.IP); ok && slices.Contains(gateways, address.Unmap()) && len(n.HardwareAddr) > 0 {
			known[n.HardwareAddr.String()] = address.Unmap()
		}
	}
	return known, nil
}
