// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
)

// forget removes the kernel's memory of flows to published UDP ports. It would
// go on sending what arrives there to an address that is gone, as long as
// packets come.
func forget(flows []flow) error {
	byFamily := map[netlink.InetFamily][]netlink.CustomConntrackFilter{}
	for _, f := range flows {
		filter, err := conntrackFilter(f)
		if err != nil {
			return err
		}
		family := netlink.InetFamily(unix.AF_INET)
		if f.address.Is6() {
			family = unix.AF_INET6
		}
		byFamily[family] = append(byFamily[family], filter)
	}
	for family, filters := range byFamily {
		_, err := netns.Whole(func() (uint, error) {
			return netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, filters...)
		})
		if err != nil {
			return fmt.Errorf("remove conntrack entries of published UDP ports: %w", err)
		}
	}
	return nil
}

// conntrackFilter matches what came for the port and was sent to the address.
func conntrackFilter(f flow) (netlink.CustomConntrackFilter, error) {
	filter := &netlink.ConntrackFilter{}
	if err := filter.AddProtocol(unix.IPPROTO_UDP); err != nil {
		return nil, err
	}
	if err := filter.AddPort(netlink.ConntrackOrigDstPort, f.port); err != nil {
		return nil, err
	}
	return filter, filter.AddIP(netlink.ConntrackReplySrcIP, f.address.AsSlice())
}
