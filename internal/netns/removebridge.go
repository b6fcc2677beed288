// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// WhyBridgeStays tells why a bridge of the caller's namespace is not removed with its network: it is none of allocnet's, or something
// else than the network uses it. Empty: it can be, or is gone. Own are the addresses that the network gives it.
func WhyBridgeStays(name string, own []netip.Prefix) (why string, err error) {
	links, err := OwnInterfaces()
	if err != nil {
		return "", err
	}
	return whyBridgeStays(links, name, own), nil
}

func whyBridgeStays(links []Interface, name string, own []netip.Prefix) string {
	at := Index(links, name)
	if at < 0 {
		if i := slices.IndexFunc(links, func(l Interface) bool { return l.IsNamed(name) }); i >= 0 {
			return "it is " + links[i].Name + ", which has the name beside its own"
		}
		return ""
	}
	bridge := links[at]
	switch {
	case bridge.Kind != "bridge":
		return "it is no bridge"
	case bridge.Group != LinkGroup:
		return "allocnet has not made it"
	}
	for _, l := range links {
		switch {
		case l.Master == bridge.Index:
			return "it has the port " + l.Name
		case l.Link == bridge.Index && !l.LinkOutside && l.Index != bridge.Index:
			return "the link " + l.Name + " is on it"
		}
	}
	for _, address := range bridge.Addresses {
		if !slices.Contains(own, address) {
			return "it has the address " + address.String()
		}
	}
	return ""
}

// RemoveBridge removes a bridge of the caller's namespace; a missing one is no error.
func RemoveBridge(name string) error {
	link, err := linkNamed(name)
	if err != nil || link == nil {
		return err
	}
	if _, isBridge := link.(*netlink.Bridge); !isBridge || link.Attrs().Name != name {
		return fmt.Errorf("remove bridge %s: it is another link by now", name)
	}
	if err := netlink.LinkDel(link); err != nil && !missingLink(err) {
		return fmt.Errorf("remove bridge %s: %w", name, err)
	}
	return nil
}
