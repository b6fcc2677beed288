// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package ptp is the plugin ptp: a veth pair from the allocation to the host, which routes.
package ptp

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ip"
	pluginipam "github.com/containernetworking/plugins/pkg/ipam"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/iface"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/masquerade"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// Type is the ptp plugin.
var Type = plugin.Type{
	Config: func() any { return &config{} },
	Add:    add, Del: del, Repair: repair,
}

// config is the configuration of the ptp plugin.
type config struct {
	types.NetConf
	IPMasq        bool              `json:"ipMasq"`
	IPMasqBackend *string           `json:"ipMasqBackend"`
	EgressAddress masquerade.Egress `json:"egressAddress"`
	MTU           int               `json:"mtu"`
	Args          struct {
		CNI plugin.IPArgs `json:"cni"`
	} `json:"args"`
}

func parse(c *plugin.Call) (*config, error) {
	conf := &config{}
	if err := c.Load(conf); err != nil {
		return nil, err
	}
	return conf, nil
}

func add(c *plugin.Call) (*current.Result, error) {
	conf, err := parse(c)
	if err != nil {
		return nil, err
	}
	result, err := c.AddIPAM(conf.IPAM.Type)
	if err != nil {
		return nil, err
	}
	for _, address := range result.IPs {
		if err := c.Forward(links.IsIPv4(address.Address.IP)); err != nil {
			return nil, fmt.Errorf("Could not enable IP forwarding: %w", err) //nolint:staticcheck // the reference plugin's text
		}
	}
	if err := conf.connect(c, result); err != nil {
		_ = c.ReleaseIPAM(conf.IPAM.Type) // the first error is returned, and DEL releases as well
		return nil, err
	}
	result.DNS = plugin.ChooseDNS(conf.DNS, result.DNS)
	return result, nil
}

// connect makes a veth pair between host and namespace, and completes the result with it.
func (conf *config) connect(c *plugin.Call, result *current.Result) error {
	netns, err := ns.GetNS(c.Netns)
	if err != nil {
		return fmt.Errorf("failed to open netns %q: %w", c.Netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	host, inside, err := iface.AddVeth(c, netns, conf.MTU, "", "")
	if err != nil {
		return err
	}
	result.Interfaces = []*current.Interface{links.Interface(host, ""), links.Interface(inside, netns.Path())}
	if err := c.Admit("", result.Interfaces[1].Mac, result); err != nil {
		return err
	}
	if err := within.Namespace(netns, func(ns.NetNS) error { return configurePTP(inside.Attrs(), result) }); err != nil {
		return err
	}
	if err := routeToPTP(result); err != nil {
		return err
	}
	if conf.IPMasq {
		return masquerade.Add(c, masquerade.Options{Backend: conf.IPMasqBackend, Egress: conf.EgressAddress}, plugin.Networks(result))
	}
	return nil
}

// configurePTP gives the addresses to the interface inside. All traffic goes through the
// gateway, which is the host's end, even that to other addresses of the network.
func configurePTP(inside *netlink.LinkAttrs, result *current.Result) error {
	for _, address := range result.IPs {
		address.Interface = current.Int(1)
	}
	if err := pluginipam.ConfigureIface(inside.Name, result); err != nil {
		return err
	}
	for _, address := range result.IPs {
		network := &net.IPNet{IP: address.Address.IP.Mask(address.Address.Mask), Mask: address.Address.Mask}
		direct := netlink.Route{LinkIndex: inside.Index, Dst: network, Scope: netlink.SCOPE_NOWHERE}
		if err := netlink.RouteDel(&direct); err != nil {
			return fmt.Errorf("failed to delete route %v: %w", direct, err)
		}
		for _, route := range []netlink.Route{
			{LinkIndex: inside.Index, Dst: single(address.Gateway, address.Address.IP), Scope: netlink.SCOPE_LINK, Src: address.Address.IP},
			{LinkIndex: inside.Index, Dst: network, Scope: netlink.SCOPE_UNIVERSE, Gw: address.Gateway, Src: address.Address.IP},
		} {
			if err := netlink.RouteAdd(&route); err != nil {
				return fmt.Errorf("failed to add route %v: %w", route, err)
			}
		}
	}
	return nil
}

// single returns the network of one address, in the family of another.
func single(address, family net.IP) *net.IPNet {
	bits := 8 * net.IPv6len
	if family.To4() != nil {
		bits = 8 * net.IPv4len
	}
	return &net.IPNet{IP: address, Mask: net.CIDRMask(bits, bits)}
}

// routeToPTP gives the gateways to the host's end, and routes the addresses to it.
func routeToPTP(result *current.Result) error {
	name := result.Interfaces[0].Name
	link, err := netlinksafe.LinkByName(name)
	if err != nil {
		return fmt.Errorf("failed to lookup %q: %w", name, err)
	}
	for _, address := range result.IPs {
		gateway := single(address.Gateway, address.Address.IP)
		if err := links.AddHostAddress(link, gateway); err != nil {
			return fmt.Errorf("failed to add IP addr (%#v) to veth: %w", gateway, err)
		}
		err := ip.AddHostRoute(single(address.Address.IP, address.Address.IP), nil, link)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("failed to add route on host: %w", err)
		}
	}
	return nil
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
	c.ReleaseIPAMLater(conf.IPAM.Type)
	if len(addresses) == 0 || !conf.IPMasq {
		return nil
	}
	masquerade.Remove(c, addresses)
	return nil
}
