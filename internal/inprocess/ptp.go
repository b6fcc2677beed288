// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"encoding/json"
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

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// ptpConfig is the configuration of the ptp plugin.
type ptpConfig struct {
	types.NetConf
	IPMasq        bool    `json:"ipMasq"`
	IPMasqBackend *string `json:"ipMasqBackend"`
	MTU           int     `json:"mtu"`
	Args          struct {
		CNI ipArgs `json:"cni"`
	} `json:"args"`
}

func parsePTP(c *call) (*ptpConfig, error) {
	conf := &ptpConfig{}
	if err := json.Unmarshal(c.config, conf); err != nil {
		return nil, fmt.Errorf("failed to load netconf: %w", err)
	}
	return conf, nil
}

func addPTP(c *call) (*current.Result, error) {
	conf, err := parsePTP(c)
	if err != nil {
		return nil, err
	}
	result, err := c.addIPAM(conf.IPAM.Type)
	if err != nil {
		return nil, err
	}
	for _, address := range result.IPs {
		if err := c.forward(links.IsIPv4(address.Address.IP)); err != nil {
			return nil, fmt.Errorf("Could not enable IP forwarding: %w", err) //nolint:staticcheck // the reference plugin's text
		}
	}
	if err := conf.connect(c, result); err != nil {
		_ = c.releaseIPAM(conf.IPAM.Type) // the first error is returned, and DEL releases as well
		return nil, err
	}
	result.DNS = chooseDNS(conf.DNS, result.DNS)
	return result, nil
}

// connect makes a veth pair between host and namespace, and completes the result with it.
func (conf *ptpConfig) connect(c *call, result *current.Result) error {
	netns, err := ns.GetNS(c.netns)
	if err != nil {
		return fmt.Errorf("failed to open netns %q: %w", c.netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	host, inside, err := addVeth(c, netns, conf.MTU, "")
	if err != nil {
		return err
	}
	result.Interfaces = []*current.Interface{links.Interface(host, ""), links.Interface(inside, netns.Path())}
	if err := within.Namespace(netns, func(ns.NetNS) error { return configurePTP(inside.Attrs(), result) }); err != nil {
		return err
	}
	if err := routeToPTP(result); err != nil {
		return err
	}
	if conf.IPMasq {
		return masquerade{conf.IPMasqBackend, networks(result), c.network, c.ifName, c.containerID}.add(c.ctx, &c.changes.rules)
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

func checkPTP(c *call) error {
	conf, err := parsePTP(c)
	if err != nil {
		return err
	}
	return checkLink(c, conf.IPAM.Type, func(link netlink.Link) error {
		if _, isVeth := link.(*netlink.Veth); !isVeth {
			return fmt.Errorf("Error: Container interface %s not of type veth/p2p", c.ifName) //nolint:staticcheck // the reference plugin's text
		}
		return nil
	})
}

func delPTP(c *call) error {
	conf, err := parsePTP(c)
	if err != nil {
		return err
	}
	if _, err := ipam(conf.IPAM.Type); err != nil {
		return err
	}
	addresses, err := removeLink(c)
	if err != nil {
		return err
	}
	c.releaseIPAMLater(conf.IPAM.Type)
	if len(addresses) == 0 || !conf.IPMasq {
		return nil
	}
	masquerade{conf.IPMasqBackend, addresses, c.network, c.ifName, c.containerID}.remove(&c.changes.rules)
	return nil
}
