// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"errors"
	"fmt"
	"slices"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/iface"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

func check(c *plugin.Call) error {
	conf, err := parse(c)
	if err != nil {
		return err
	}
	netns, err := ns.GetNS(c.Netns)
	if err != nil {
		return fmt.Errorf("failed to open netns %q: %w", c.Netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	if err := c.CheckIPAM(conf.IPAM.Type); err != nil {
		return err
	}
	result, err := c.RequirePrevResult()
	if err != nil {
		return err
	}
	bridge, err := conf.checkBridge(result)
	if err != nil {
		return err
	}
	inside, peer, err := checkInside(c, netns, result)
	if err != nil {
		return err
	}
	if err := checkPort(result, bridge, inside, peer); err != nil {
		return err
	}
	return within.Namespace(netns, func(ns.NetNS) error { return iface.CheckAddresses(c, result) })
}

func (conf *config) checkBridge(result *current.Result) (index int, err error) {
	recorded := last(result, conf.Bridge)
	if recorded == nil {
		return 0, errors.New("Interface name missing ") //nolint:staticcheck // the reference plugin's text
	}
	if recorded.Sandbox != "" {
		return 0, fmt.Errorf("Interface %s should not be in sandbox", recorded.Name) //nolint:staticcheck // the reference plugin's text
	}
	bridge, err := bridgeByName(conf.Bridge)
	if err != nil {
		return 0, err
	}
	attrs := bridge.Attrs()
	if recorded.Mac != "" && recorded.Mac != attrs.HardwareAddr.String() {
		return 0, fmt.Errorf("bridge %s has MAC %s, was set up with %s", conf.Bridge, attrs.HardwareAddr, recorded.Mac)
	}
	if promiscuous := attrs.Promisc != 0; promiscuous != conf.PromiscMode {
		return 0, fmt.Errorf("promiscuous mode of bridge %s is %v, configured is %v", conf.Bridge, promiscuous, conf.PromiscMode)
	}
	return attrs.Index, nil
}

// last returns the last interface of a result with that name; nil if there is none. The
// reference plugin takes it for the bridge, wherever it is.
func last(result *current.Result, name string) *current.Interface {
	for _, i := range slices.Backward(result.Interfaces) {
		if i.Name == name {
			return i
		}
	}
	return nil
}

// checkInside compares the interface in the namespace with the result, and returns its index
// and that of its peer.
func checkInside(c *plugin.Call, netns ns.NetNS, result *current.Result) (index, peer int, err error) {
	recorded := plugin.Find(result, c.IfName, c.Netns)
	if recorded == nil {
		return 0, 0, fmt.Errorf("prevResult has no interface %s in %s", c.IfName, c.Netns)
	}
	err = within.Namespace(netns, func(ns.NetNS) error {
		link, peerIndex, err := ip.GetVethPeerIfindex(c.IfName)
		if err != nil {
			return err
		}
		index, peer = link.Attrs().Index, peerIndex
		return links.CompareMAC(link, recorded)
	})
	return index, peer, err
}

// checkPort looks for the port of the bridge that is the peer of the interface inside.
func checkPort(result *current.Result, bridge, inside, peer int) error {
	for _, recorded := range result.Interfaces {
		if recorded.Sandbox != "" {
			continue
		}
		link, err := netlinksafe.LinkByName(recorded.Name)
		if err != nil {
			return fmt.Errorf("interface %s not found", recorded.Name)
		}
		attrs := link.Attrs()
		if _, isVeth := link.(*netlink.Veth); !isVeth || attrs.Index != peer || attrs.ParentIndex != inside || attrs.MasterIndex != bridge {
			continue
		}
		return links.CompareMAC(link, recorded)
	}
	return errors.New("the port of the bridge that belongs to the interface was not found")
}
