// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package links makes, compares and repairs links of the kernel, with their addresses and routes, for plugins. All
// functions are about the network namespace of the calling thread.
package links

import (
	"errors"
	"fmt"
	"net"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/netns"
)

// Existing returns the links of this namespace that have one of the names. The kernel also finds those that have it
// as an alternative name: they are others.
func Existing(names []string) ([]netlink.Link, error) {
	var found []netlink.Link
	for _, name := range names {
		link, err := netlinksafe.LinkByName(name)
		if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
			continue
		}
		if err != nil {
			return nil, err
		}
		if link.Attrs().Name == name {
			found = append(found, link)
		}
	}
	return found, nil
}

// Find returns a link of this namespace; nil if there is none of that name.
func Find(name string) (netlink.Link, error) {
	found, err := Existing([]string{name})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// SetUp sets a link up. That it is up is no error, that there is none is one.
func SetUp(name string) error {
	link, err := netlinksafe.LinkByName(name)
	if err != nil {
		return fmt.Errorf("failed to retrieve link: %w", err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("failed to set %q up: %w", name, err)
	}
	return nil
}

// NameOf returns the name of a link of this namespace, or its index if it is gone.
func NameOf(index int) string {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Sprintf("interface %d", index)
	}
	return link.Attrs().Name
}

// SetMAC gives a link a MAC, written in any form of net.ParseMAC.
func SetMAC(link netlink.Link, text string) error {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return fmt.Errorf("invalid args %v for MAC addr: %w", text, err)
	}
	return netlink.LinkSetHardwareAddr(link, mac)
}

// Interface returns a link as results have it; one of the host has no sandbox.
func Interface(link netlink.Link, sandbox string) *current.Interface {
	attrs := link.Attrs()
	return &current.Interface{Name: attrs.Name, Mac: attrs.HardwareAddr.String(), Sandbox: sandbox}
}

// HasMAC tells whether a link has the MAC that a result has for it, which may be empty.
func HasMAC(link netlink.Link, recorded *current.Interface) bool {
	return recorded.Mac == "" || netns.FollowsMaster(link.Type()) || netns.SameMAC(recorded.Mac, link.Attrs().HardwareAddr.String())
}

// MaxNameLength is the length of the longest name of a link.
const MaxNameLength = 15
