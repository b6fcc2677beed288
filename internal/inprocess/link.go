// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

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
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// removeLink leaves the link of the attachment to be removed, and returns its addresses, which
// rules were made for: those of the result of ADD, and those that the link has. The plugins
// leave the rules of a link that is gone.
func removeLink(c *call) (addresses []net.IPNet, err error) {
	if result, err := c.prevResult(); err == nil && result != nil {
		addresses = networks(result)
	}
	err = c.inNamespace(func() error {
		link, err := removeNamed(c, c.ifName)
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

// removeNamed leaves a link of this namespace, which is the attachment's, to be removed, and
// returns it; nil if there is none of that name.
func removeNamed(c *call, name string) (netlink.Link, error) {
	found, err := links.Existing([]string{name})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	c.changes.removeLink(c.netns, name)
	return found[0], nil
}

// checkAddresses compares the addresses and routes of a result with the attachment's
// interface.
func checkAddresses(c *call, result *current.Result) error {
	if err := ip.ValidateExpectedInterfaceIPs(c.ifName, result.IPs); err != nil {
		return err
	}
	return ip.ValidateExpectedRoute(result.Routes)
}

// checkLink compares the interface in the namespace with the result: its kind, MAC, addresses
// and routes. Before that the IPAM plugin checks, if there is one.
func checkLink(c *call, ipam string, checkKind func(netlink.Link) error) error {
	netns, err := ns.GetNS(c.netns)
	if err != nil {
		return fmt.Errorf("failed to open netns %q: %w", c.netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	if ipam != "" {
		if err := c.checkIPAM(ipam); err != nil {
			return err
		}
	}
	result, err := c.requirePrevResult()
	if err != nil {
		return err
	}
	recorded := find(result, c.ifName, c.netns)
	if recorded == nil {
		return fmt.Errorf("prevResult has no interface %s in %s", c.ifName, c.netns)
	}
	return within.Namespace(netns, func(ns.NetNS) error {
		link, err := netlinksafe.LinkByName(c.ifName)
		if err != nil {
			return fmt.Errorf("interface %s not found: %w", c.ifName, err)
		}
		if err := checkKind(link); err != nil {
			return err
		}
		if err := links.CompareMAC(link, recorded); err != nil {
			return err
		}
		return checkAddresses(c, result)
	})
}
