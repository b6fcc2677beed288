// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"fmt"
	"net"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
)

// loopbackConfig is the configuration of the loopback plugin.
type loopbackConfig struct{ types.NetConf }

// addLoopback sets lo up, whatever name the runtime asks for.
func addLoopback(c *call) (*current.Result, error) {
	previous, err := c.prevResult()
	if err != nil {
		return nil, err
	}
	result := &current.Result{
		CNIVersion: c.version, // so the addresses have no key "version" in the versions that had it
		Interfaces: []*current.Interface{{Name: "lo", Mac: "00:00:00:00:00:00", Sandbox: c.netns}},
	}
	err = withinPath(c.netns, func(ns.NetNS) error {
		if err := setUp("lo"); err != nil {
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
		found, err := addressesOf(link, family)
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

func checkLoopback(c *call) error {
	return withinPath(c.netns, func(ns.NetNS) error {
		link, err := netlinksafe.LinkByName("lo")
		if err != nil {
			return err
		}
		if link.Attrs().Flags&net.FlagUp == 0 {
			return errors.New("loopback interface is down")
		}
		return nil
	})
}

func delLoopback(c *call) error {
	return c.inNamespace(func() error {
		link, err := netlinksafe.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(link)
	})
}
