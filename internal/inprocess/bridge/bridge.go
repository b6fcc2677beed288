// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package bridge is the plugin bridge: a veth pair from the allocation to a bridge of the host.
package bridge

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/inprocess/iface"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/masquerade"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// Type is the bridge plugin.
var Type = plugin.Type{
	Config: func() any { return &config{} },
	Add:    add, Del: del, Repair: repair,
}

// config is the configuration of the bridge plugin.
type config struct {
	types.NetConf
	Bridge              string               `json:"bridge"`
	IsGateway           bool                 `json:"isGateway"`
	IsDefaultGateway    bool                 `json:"isDefaultGateway"`
	ForceAddress        bool                 `json:"forceAddress"`
	IPMasq              bool                 `json:"ipMasq"`
	IPMasqBackend       *string              `json:"ipMasqBackend"`
	EgressAddress       masquerade.Egress    `json:"egressAddress"`
	MTU                 int                  `json:"mtu"`
	HairpinMode         bool                 `json:"hairpinMode"`
	PromiscMode         bool                 `json:"promiscMode"`
	VLAN                int                  `json:"vlan"`
	VLANTrunk           []vlanRange          `json:"vlanTrunk"`
	PreserveDefaultVLAN bool                 `json:"preserveDefaultVlan"`
	EnableDAD           bool                 `json:"enabledad"`
	DisableInterface    bool                 `json:"disableContainerInterface"`
	PortIsolation       bool                 `json:"portIsolation"`
	Args                plugin.MACArgs       `json:"args"`
	RuntimeConfig       plugin.MACCapability `json:"runtimeConfig"`

	mac string
	// trunk are the IDs of VLANTrunk, sorted.
	trunk []uint16
	// vlanPort is the name of the port for the VLAN; empty: BRIDGE.VLAN.
	vlanPort string
}

func parse(c *plugin.Call) (*config, error) {
	conf := &config{Bridge: "cni0"}
	if err := c.Load(conf); err != nil {
		return nil, err
	}
	if conf.VLAN < 0 || conf.VLAN > maxVLAN {
		return nil, fmt.Errorf("invalid VLAN ID %d (must be between 0 and %d)", conf.VLAN, maxVLAN)
	}
	var err error
	if conf.trunk, err = vlanIDs(conf.VLANTrunk); err != nil {
		return nil, err
	}
	if conf.mac, err = plugin.RequestedMAC(c.Args, conf.Args, conf.RuntimeConfig); err != nil {
		return nil, err
	}
	conf.IsGateway = conf.IsGateway || conf.IsDefaultGateway
	return conf, nil
}

func add(c *plugin.Call) (*current.Result, error) {
	conf, err := parse(c)
	if err != nil {
		return nil, err
	}
	if conf.IPAM.Type != "" && conf.DisableInterface {
		return nil, errors.New("cannot use IPAM when DisableContainerInterface flag is set")
	}
	if conf.HairpinMode && conf.PromiscMode {
		return nil, errors.New("cannot set hairpin mode and promiscuous mode at the same time")
	}
	bridge, err := conf.ensureBridge(c, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to create bridge %q: %w", conf.Bridge, err)
	}
	netns, err := ns.GetNS(c.Netns)
	if err != nil {
		return nil, fmt.Errorf("failed to open netns %q: %w", c.Netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	host, container, err := iface.AddVeth(c, netns, conf.MTU, conf.mac, conf.Bridge)
	if err != nil {
		return nil, err
	}
	if err := conf.connect(bridge, host, conf.VLAN, conf.trunk); err != nil {
		return nil, err
	}
	port, inside := links.Interface(host, ""), links.Interface(container, netns.Path())
	result := &current.Result{
		CNIVersion: current.ImplementedSpecVersion,
		Interfaces: []*current.Interface{{Name: conf.Bridge}, port, inside},
	}
	if err := conf.configure(c, netns, bridge, result); err != nil {
		return nil, err
	}
	return result, nil
}

// configure sets the interface up, with the addresses that its IPAM plugin gives. They are
// released if that fails.
func (conf *config) configure(c *plugin.Call, netns ns.NetNS, bridge *netlink.Bridge, result *current.Result) error {
	if conf.IPAM.Type == "" {
		if err := conf.setUpWithoutAddresses(c, netns); err != nil {
			return err
		}
		return conf.complete(c, bridge, result)
	}
	allocated, err := c.AddIPAM(conf.IPAM.Type)
	if err != nil {
		return err
	}
	if err = conf.applyAddresses(c, netns, bridge, result, allocated); err == nil {
		err = conf.complete(c, bridge, result)
	}
	if err != nil {
		_ = c.ReleaseIPAM(conf.IPAM.Type) // the first error is returned, and DEL releases as well
	}
	return err
}

func (conf *config) setUpWithoutAddresses(c *plugin.Call, netns ns.NetNS) error {
	if conf.DisableInterface {
		return nil
	}
	return within.Namespace(netns, func(ns.NetNS) error { return links.SetUp(c.IfName) })
}

// applyAddresses gives the addresses to the interface, and the gateways to the bridge.
func (conf *config) applyAddresses(c *plugin.Call, netns ns.NetNS, bridge *netlink.Bridge, result, allocated *current.Result) error {
	result.IPs, result.Routes, result.DNS = allocated.IPs, allocated.Routes, allocated.DNS
	gateways := conf.gateways(result)
	if err := c.Admit(conf.Bridge, result.Interfaces[2].Mac, result); err != nil {
		return err
	}
	err := within.Namespace(netns, func(ns.NetNS) error {
		conf.setDAD(c)
		_ = c.Sysctls.Set("net/ipv4/conf/"+c.IfName+"/arp_notify", "1") // as the reference plugin, which ignores it
		return iface.Configure(c, result)
	})
	if err != nil {
		return err
	}
	if err := conf.addGateways(c, bridge, gateways, result); err != nil {
		return err
	}
	if conf.IPMasq {
		return masquerade.Add(c, masquerade.Options{Backend: conf.IPMasqBackend, Egress: conf.EgressAddress}, plugin.Networks(result))
	}
	return nil
}

// setDAD turns duplicate address detection on or off. A host without IPv6 has no such key.
func (conf *config) setDAD(c *plugin.Call) {
	key := "net/ipv6/conf/" + c.IfName
	if !conf.EnableDAD {
		_ = c.Sysctls.Set(key+"/accept_dad", "0")
		return
	}
	_ = c.Sysctls.Set(key+"/enhanced_dad", "1")
	_ = c.Sysctls.Set(key+"/accept_dad", "1")
}

// complete waits until the port forwards, and fills in what the kernel has chosen.
func (conf *config) complete(c *plugin.Call, bridge *netlink.Bridge, result *current.Result) error {
	port := result.Interfaces[1]
	find := waitForPort
	if conf.DisableInterface {
		find = func(_ *plugin.Call, name string) (netlink.Link, error) { return netlinksafe.LinkByName(name) }
	}
	link, err := find(c, port.Name)
	if err != nil {
		return err
	}
	port.Mac = link.Attrs().HardwareAddr.String()
	result.Interfaces[0].Mac = bridge.HardwareAddr.String() // it is made with it, or keeps it
	result.DNS = plugin.ChooseDNS(conf.DNS, result.DNS)
	return nil
}

// portTimeout is how long a port may take to come up. The reference plugin looks five times
// in 2.55 s.
const portTimeout = 2550 * time.Millisecond

// waitForPort waits until the port of a bridge is up: the kernel's link watch runs in the
// background.
func waitForPort(c *plugin.Call, name string) (netlink.Link, error) {
	deadline := time.Now().Add(portTimeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		link, err := netlinksafe.LinkByName(name)
		if err != nil || link.Attrs().OperState == netlink.OperUp {
			return link, err
		}
		if time.Now().After(deadline) {
			return nil, errdefs.As(errdefs.Unavailable, fmt.Errorf("bridge port in error state: %s", link.Attrs().OperState))
		}
		select {
		case <-c.Ctx.Done():
			return nil, c.Ctx.Err()
		case <-time.After(pause):
		}
	}
}

func del(c *plugin.Call) error {
	conf, err := parse(c)
	if err != nil {
		return err
	}
	addresses, err := iface.Remove(c)
	if err != nil {
		return err
	}
	if conf.IPAM.Type == "" {
		return nil
	}
	c.ReleaseIPAMLater(conf.IPAM.Type)
	if conf.IPMasq && c.Netns != "" {
		masquerade.Remove(c, addresses)
	}
	return nil
}

// gateways returns the addresses that the bridge gets, and completes the result with them
// and with the default routes.
func (conf *config) gateways(result *current.Result) []net.IPNet {
	var gateways []net.IPNet
	hasDefault := map[bool]bool{} // by whether the family is IPv4
	for _, address := range result.IPs {
		address.Interface = current.Int(2)
		if !conf.IsGateway {
			continue
		}
		if address.Gateway == nil {
			address.Gateway = firstAddress(address.Address)
		}
		gateways = append(gateways, net.IPNet{IP: address.Gateway, Mask: address.Address.Mask})
		isV4 := address.Address.IP.To4() != nil
		if conf.IsDefaultGateway && !hasDefault[isV4] {
			result.Routes = withDefaultRoute(result.Routes, address.Gateway, isV4)
			hasDefault[isV4] = true
		}
	}
	return gateways
}

func firstAddress(network net.IPNet) net.IP { return ip.NextIP(network.IP.Mask(network.Mask)) }

// withDefaultRoute adds a default route unless there is one with a gateway.
func withDefaultRoute(routes []*types.Route, gateway net.IP, isV4 bool) []*types.Route {
	destination := net.IPNet{IP: net.IPv6zero, Mask: net.IPMask(net.IPv6zero)}
	if isV4 {
		destination = net.IPNet{IP: net.IPv4zero, Mask: net.IPMask(net.IPv4zero)}
	}
	for _, route := range routes {
		if route.GW != nil && route.Dst.String() == destination.String() {
			return routes
		}
	}
	return append(routes, &types.Route{Dst: destination, GW: gateway})
}
