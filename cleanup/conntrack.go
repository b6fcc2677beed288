// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// deleteFlows removes the conntrack entries of published UDP ports. As long as
// packets arrive, the kernel would go on sending them to an address that is gone.
func deleteFlows(k kernel, flows []flow) error {
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
		if err := k.deleteFlows(family, filters); err != nil {
			return fmt.Errorf("remove conntrack entries of published UDP ports: %w", err)
		}
	}
	return nil
}

// conntrackFilter matches flows to the port that DNAT sent to the address.
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
