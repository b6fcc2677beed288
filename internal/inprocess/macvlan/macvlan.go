// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package macvlan is the plugin macvlan: an interface with a MAC of its own on a link of the host.
package macvlan

import (
	"fmt"
	"net"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/sublink"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// Type is the macvlan plugin.
var Type = plugin.Type{
	Config: func() any { return &config{} },
	Add:    add, Del: sublink.Del, Repair: func(c *plugin.Call) error { return sublink.Repair(c, "macvlan") },
}

// config is the configuration of the macvlan plugin.
type config struct {
	types.NetConf
	sublink.Master
	Mode          string               `json:"mode"`
	MAC           string               `json:"mac"`
	BcQueueLen    uint32               `json:"bcqueuelen"`
	RuntimeConfig plugin.MACCapability `json:"runtimeConfig"`
	Args          struct {
		CNI plugin.IPArgs `json:"cni"`
	} `json:"args"`
}

// macvlanModes are the values of "mode". That of no name is the default.
var macvlanModes = map[string]netlink.MacvlanMode{
	"":         netlink.MACVLAN_MODE_BRIDGE,
	"bridge":   netlink.MACVLAN_MODE_BRIDGE,
	"private":  netlink.MACVLAN_MODE_PRIVATE,
	"vepa":     netlink.MACVLAN_MODE_VEPA,
	"passthru": netlink.MACVLAN_MODE_PASSTHRU,
}

// parse returns the configuration with the master, which has to exist, and the MAC.
func parse(c *plugin.Call) (*config, error) {
	conf := &config{}
	if err := c.Load(conf); err != nil {
		return nil, err
	}
	if err := conf.UseDefaultRoute(c.Netns); err != nil {
		return nil, err
	}
	if err := conf.CheckMTU(c.Netns); err != nil {
		return nil, err
	}
	requested, err := plugin.RequestedMAC(c.Args, plugin.MACArgs{}, conf.RuntimeConfig)
	if requested != "" {
		conf.MAC = requested
	}
	return conf, err
}

func add(c *plugin.Call) (*current.Result, error) {
	conf, err := parse(c)
	if err != nil {
		return nil, err
	}
	netns, err := ns.GetNS(c.Netns)
	if err != nil {
		return nil, fmt.Errorf("failed to open netns %q: %w", c.Netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	link, err := conf.link(c, netns)
	if err != nil {
		return nil, err
	}
	inside, err := conf.Add(c, netns, link)
	if err != nil {
		return nil, err
	}
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Interfaces: []*current.Interface{inside}}
	if conf.IPAM.Type == "" {
		err = within.Namespace(netns, func(ns.NetNS) error { return links.SetUp(c.IfName) })
	} else {
		err = sublink.Allocate(c, netns, conf.NetConf, result, sublink.Announce)
	}
	result.DNS = plugin.ChooseDNS(conf.DNS, result.DNS)
	return result, err
}

func (conf *config) link(c *plugin.Call, netns ns.NetNS) (*netlink.Macvlan, error) {
	mode, known := macvlanModes[conf.Mode]
	if !known {
		return nil, fmt.Errorf("unknown macvlan mode: %q", conf.Mode)
	}
	attrs := conf.Attrs(c, netns)
	if conf.MAC != "" {
		var err error
		if attrs.HardwareAddr, err = net.ParseMAC(conf.MAC); err != nil {
			return nil, fmt.Errorf("invalid args %v for MAC addr: %w", conf.MAC, err)
		}
	}
	if attrs.HardwareAddr == nil && mode != netlink.MACVLAN_MODE_PASSTHRU { // which takes the master's
		attrs.HardwareAddr = links.NewMAC()
	}
	return &netlink.Macvlan{LinkAttrs: attrs, Mode: mode, BCQueueLen: conf.BcQueueLen}, nil
}
