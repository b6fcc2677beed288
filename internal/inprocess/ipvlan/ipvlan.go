// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package ipvlan is the plugin ipvlan: an interface on a link of the host, with the MAC of that link.
package ipvlan

import (
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/sublink"
)

// Type is the ipvlan plugin.
var Type = plugin.Type{
	Config: func() any { return &config{} },
	Add:    add, Del: sublink.Del, Repair: func(c *plugin.Call) error { return sublink.Repair(c, "ipvlan") },
}

// config is the configuration of the ipvlan plugin.
type config struct {
	types.NetConf
	sublink.Master
	Mode string `json:"mode"`
	Args struct {
		CNI plugin.IPArgs `json:"cni"`
	} `json:"args"`
}

// modes are the values of "mode". That of no name is the default.
var modes = map[string]netlink.IPVlanMode{
	"":    netlink.IPVLAN_MODE_L2,
	"l2":  netlink.IPVLAN_MODE_L2,
	"l3":  netlink.IPVLAN_MODE_L3,
	"l3s": netlink.IPVLAN_MODE_L3S,
}

func (conf *config) mode() (netlink.IPVlanMode, error) {
	mode, known := modes[conf.Mode]
	if !known {
		return 0, fmt.Errorf("unknown ipvlan mode: %q", conf.Mode)
	}
	return mode, nil
}

// parse returns the configuration with the name of the master: without one, that of the interface that the plugin before has made,
// or of the link of a default route.
func parse(c *plugin.Call, previous *current.Result) (*config, error) {
	conf := &config{}
	if err := c.Load(conf); err != nil {
		return nil, err
	}
	if conf.Link == "" && previous != nil {
		if len(previous.Interfaces) != 1 || previous.Interfaces[0].Name == "" {
			return nil, errors.New("chained master failure. PrevResult lacks a single named interface")
		}
		conf.Link = previous.Interfaces[0].Name
	}
	return conf, conf.UseDefaultRoute(c.Netns)
}

func add(c *plugin.Call) (*current.Result, error) {
	previous, err := c.PrevResult()
	if err != nil {
		return nil, err
	}
	conf, err := parse(c, previous)
	if err != nil {
		return nil, err
	}
	netns, err := ns.GetNS(c.Netns)
	if err != nil {
		return nil, fmt.Errorf("failed to open netns %q: %w", c.Netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	mode, err := conf.mode()
	if err != nil {
		return nil, err
	}
	inside, err := conf.Add(c, netns, &netlink.IPVlan{LinkAttrs: conf.Attrs(c, netns), Mode: mode})
	if err != nil {
		return nil, err
	}
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Interfaces: []*current.Interface{inside}}
	if conf.IPAM.Type == "" && previous != nil && len(previous.IPs) > 0 {
		result.IPs, result.Routes = previous.IPs, previous.Routes
		err = sublink.Configure(c, netns, result, sublink.Announce)
	} else {
		err = sublink.Allocate(c, netns, conf.NetConf, result, sublink.Announce)
	}
	result.DNS = plugin.ChooseDNS(conf.DNS, result.DNS)
	return result, err
}
