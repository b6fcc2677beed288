// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package iface has what plugins share that give an allocation an interface: the veth pair, its end on the host,
// and how the interface inside is removed, compared with the result of ADD, and repaired.
package iface

import (
	"fmt"
	"net"
	"slices"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
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

// CheckAddresses compares the addresses and routes of a result with the attachment's
// interface.
func CheckAddresses(c *plugin.Call, result *current.Result) error {
	if err := ip.ValidateExpectedInterfaceIPs(c.IfName, result.IPs); err != nil {
		return err
	}
	return ip.ValidateExpectedRoute(result.Routes)
}

// Check compares the interface in the namespace with the result: its kind, MAC, addresses
// and routes. Before that the IPAM plugin checks, if there is one.
func Check(c *plugin.Call, ipam string, checkKind func(netlink.Link) error) error {
	netns, err := ns.GetNS(c.Netns)
	if err != nil {
		return fmt.Errorf("failed to open netns %q: %w", c.Netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	if ipam != "" {
		if err := c.CheckIPAM(ipam); err != nil {
			return err
		}
	}
	result, err := c.RequirePrevResult()
	if err != nil {
		return err
	}
	recorded := plugin.Find(result, c.IfName, c.Netns)
	if recorded == nil {
		return fmt.Errorf("prevResult has no interface %s in %s", c.IfName, c.Netns)
	}
	return within.Namespace(netns, func(ns.NetNS) error {
		link, err := netlinksafe.LinkByName(c.IfName)
		if err != nil {
			return fmt.Errorf("interface %s not found: %w", c.IfName, err)
		}
		if err := checkKind(link); err != nil {
			return err
		}
		if err := links.CompareMAC(link, recorded); err != nil {
			return err
		}
		return CheckAddresses(c, result)
	})
}
