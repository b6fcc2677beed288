// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
)

// Bridge is a bridge of the caller's namespace.
type Bridge struct {
	MTU int
	// Ports is the number of links that are attached to it.
	Ports int
}

// FindBridge returns a bridge; ok is false when there is none of that name.
func FindBridge(name string) (b Bridge, ok bool, err error) {
	link, err := netlink.LinkByName(name)
	if missingLink(err) || err == nil && link.Type() != "bridge" {
		return Bridge{}, false, nil
	}
	if err != nil {
		return Bridge{}, false, fmt.Errorf("get link %s: %w", name, err)
	}
	links, err := Whole(netlink.LinkList)
	if err != nil {
		return Bridge{}, false, fmt.Errorf("list the ports of %s: %w", name, err)
	}
	ports := slices.DeleteFunc(links, func(l netlink.Link) bool { return l.Attrs().MasterIndex != link.Attrs().Index })
	return Bridge{MTU: link.Attrs().MTU, Ports: len(ports)}, true, nil
}

// PinMTU sets the MTU of a bridge permanently. Until it is set for the first time a
// bridge has the smallest MTU of its ports, and setting the same value has no effect:
// another value is set first, a larger one where possible, because below 1280 the
// kernel removes IPv6 addresses.
func PinMTU(name string, mtu int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("set the MTU of %s: %w", name, err)
	}
	steps := []int{mtu}
	if link.Attrs().MTU == mtu {
		other := mtu + 1
		if mtu == 65535 {
			other = mtu - 1
		}
		steps = []int{other, mtu}
	}
	for _, step := range steps {
		if err := netlink.LinkSetMTU(link, step); err != nil {
			return fmt.Errorf("set the MTU of %s to %d: %w", name, step, err)
		}
	}
	return nil
}

// LinkMTU returns the MTU of a link of the caller's namespace; ok is false when
// there is none of that name.
func LinkMTU(name string) (mtu int, ok bool, err error) {
	link, err := netlink.LinkByName(name)
	if missingLink(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("get link %s: %w", name, err)
	}
	return link.Attrs().MTU, true, nil
}
