// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
)

// LinkLocal returns the lowest link-local IPv6 address of the interface that has an address; not
// valid if it has none. It is an error if no interface of the host has the address.
func LinkLocal(address netip.Addr) (netip.Addr, error) {
	all, err := netns.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list the addresses of this host: %w", err)
	}
	index := 0
	linkLocal := map[int]netip.Addr{}
	for i := range all {
		a, ok := netip.AddrFromSlice(all[i].IP)
		a = a.Unmap()
		switch at := all[i].LinkIndex; {
		case !ok:
		case a == address:
			index = at
		case a.Is6() && a.IsLinkLocalUnicast() && (!linkLocal[at].IsValid() || a.Less(linkLocal[at])):
			linkLocal[at] = a
		}
	}
	if index == 0 {
		return netip.Addr{}, errdefs.As(errdefs.Refused, fmt.Errorf("no interface of this host has %s: set address in the block cluster to one that other hosts reach", address))
	}
	return linkLocal[index], nil
}
