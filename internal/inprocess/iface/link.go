// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package iface has what plugins share that give an allocation an interface: the veth pair, its end on the host,
// and how the interface inside is removed, compared with the result of ADD, and repaired.
package iface

import (
	"net"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

// Remove leaves the link of the attachment to be removed, and returns its addresses, which
// rules were made for: those of the result of ADD, and those that the link has. The plugins
// leave the rules of a link that is gone.
func Remove(c *plugin.Call) (addresses []net.IPNet, err error) {
	if result, _ := c.PrevResult(); result != nil { // DEL goes on without one
		addresses = plugin.Networks(result)
	}
	err = c.InNamespace(func() error {
		link, err := RemoveNamed(c, c.IfName)
		if err != nil || link == nil {
			return err
		}
		found, err := links.GlobalAddresses(link)
		for _, address := range found {
			known := func(other net.IPNet) bool { return other.String() == address.String() }
			if !slices.ContainsFunc(addresses, known) {
				addresses = append(addresses, address)
			}
		}
		return err
	})
	return addresses, err
}

// RemoveNamed leaves a link of this namespace, which is the attachment's, to be removed, and
// returns it; nil if there is none of that name.
func RemoveNamed(c *plugin.Call, name string) (netlink.Link, error) {
	link, err := links.Find(name)
	if link != nil {
		c.Changes.RemoveLink(c.Netns, name)
	}
	return link, err
}
