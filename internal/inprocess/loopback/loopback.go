// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package loopback is the plugin loopback, which sets lo up.
package loopback

import (
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// Type is the loopback plugin.
var Type = plugin.Type{
	Config: func() any { return &config{} },
	Add:    add, Del: del, Repair: repair,
}

// config is the configuration of the loopback plugin.
type config struct{ types.NetConf }

// add sets lo up, whatever name the runtime asks for.
func add(c *plugin.Call) (*current.Result, error) {
	previous, err := c.PrevResult()
	if err != nil {
		return nil, err
	}
	result := &current.Result{
		CNIVersion: c.Version, // so the addresses have no key "version" in the versions that had it
		Interfaces: []*current.Interface{{Name: "lo", Mac: "00:00:00:00:00:00", Sandbox: c.Netns}},
	}
	err = within.Path(c.Netns, func(ns.NetNS) error {
		if err := links.SetUp("lo"); err != nil {
			return err
		}
		result.IPs, err = loopbackAddresses()
		return err
	})
	if err != nil {
		return nil, err
	}
	if previous != nil {
		return previous, nil
	}
	return result, nil
}

// loopbackAddresses returns the first address of each family of lo.
func loopbackAddresses() ([]*current.IPConfig, error) {
	link, err := netlinksafe.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	var addresses []*current.IPConfig
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		found, err := links.Addresses(link, family)
		if err != nil {
			return nil, err
		}
		for i, address := range found {
			if !address.IP.IsLoopback() {
				return nil, fmt.Errorf("loopback interface found with non-loopback address %q", address.IP)
			}
			if i == 0 {
				addresses = append(addresses, &current.IPConfig{Interface: current.Int(0), Address: *address.IPNet})
			}
		}
	}
	return addresses, nil
}

func del(c *plugin.Call) error {
	return c.InNamespace(func() error {
		link, err := netlinksafe.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(link)
	})
}

// repair sets lo up.
func repair(c *plugin.Call) error {
	return c.InNamespace(func() error {
		link, err := links.Find("lo")
		if err != nil || link == nil {
			return err
		}
		return remedy.EnsureUp(c.Repair, link)
	})
}
