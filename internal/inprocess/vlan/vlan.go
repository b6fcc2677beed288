// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package vlan is the plugin vlan: the interface of a VLAN of a link of the host.
package vlan

import (
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/sublink"
)

// Type is the vlan plugin.
var Type = plugin.Type{
	Config: func() any { return &config{} },
	Add:    add, Del: sublink.Del, Repair: func(c *plugin.Call) error { return sublink.Repair(c, "vlan") },
}

// config is the configuration of the vlan plugin.
type config struct {
	types.NetConf
	sublink.Master
	VLANID int `json:"vlanId"`
	Args   struct {
		CNI plugin.IPArgs `json:"cni"`
	} `json:"args"`
}

// maxID is the largest ID: the standard reserves 4095.
const maxID = 4094

func parse(c *plugin.Call) (*config, error) {
	conf := &config{}
	if err := c.Load(conf); err != nil {
		return nil, err
	}
	switch {
	case conf.Link == "":
		return nil, errors.New("master is missing: want the link of the host that the VLAN is on")
	case conf.VLANID < 0 || conf.VLANID > maxID:
		return nil, fmt.Errorf("vlanId %d: want 0 to %d", conf.VLANID, maxID)
	}
	return conf, nil
}

func add(c *plugin.Call) (*current.Result, error) {
	conf, err := parse(c)
	if err != nil {
		return nil, err
	}
	if err := conf.CheckMTU(c.Netns); err != nil {
		return nil, err
	}
	netns, err := ns.GetNS(c.Netns)
	if err != nil {
		return nil, fmt.Errorf("failed to open netns %q: %w", c.Netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	inside, err := conf.Add(c, netns, &netlink.Vlan{LinkAttrs: conf.Attrs(c, netns), VlanId: conf.VLANID})
	if err != nil {
		return nil, conf.explain(err)
	}
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Interfaces: []*current.Interface{inside}}
	err = sublink.Allocate(c, netns, conf.NetConf, result, nil)
	result.DNS = plugin.ChooseDNS(conf.DNS, result.DNS)
	return result, err
}

// explain says what to do about a VLAN that has its interface already: the kernel makes one of each link.
func (conf *config) explain(err error) error {
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	return fmt.Errorf("VLAN %d of %s has its only interface already, on the host or in another allocation; for several, want a network of type macvlan on a link of that VLAN: %w", conf.VLANID, conf.Link, err)
}
