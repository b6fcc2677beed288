// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"fmt"
	"net"
	"slices"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// repairPTP repairs the host's end, the interface inside and the masquerading.
func repairPTP(c *call) error {
	conf, err := parsePTP(c)
	if err != nil {
		return err
	}
	result, err := c.requirePrevResult()
	if err != nil {
		return err
	}
	host, err := c.hostEnd(result)
	if err != nil || host == nil {
		return err
	}
	inside := insideRepair{kind: "veth", extra: func(link netlink.Link, present []netlink.Route) error {
		for _, address := range c.own(result) {
			if err := c.repair.ensureIndirect(link, present, address); err != nil {
				return err
			}
		}
		return nil
	}}
	if err := errors.Join(c.repairHostEnd(host, result), c.repairInside(result, inside)); err != nil {
		return err
	}
	if !conf.IPMasq {
		return nil
	}
	return c.repairMasquerade(masquerade{conf.IPMasqBackend, networks(result), c.network, c.ifName, c.containerID})
}

// ensureIndirect makes the routes that lead all packets through the gateway, and removes the
// one to the network that the kernel has made meanwhile with the link or the address.
func (r *Repair) ensureIndirect(link netlink.Link, present []netlink.Route, address *current.IPConfig) error {
	index := link.Attrs().Index
	network := &net.IPNet{IP: address.Address.IP.Mask(address.Address.Mask), Mask: address.Address.Mask}
	direct := netlink.Route{LinkIndex: index, Dst: network}
	if ones, bits := address.Address.Mask.Size(); ones < bits && slices.ContainsFunc(present, func(other netlink.Route) bool { return sameRoute(other, direct) }) {
		what := fmt.Sprintf("route to %s of %s is not by the gateway", network, link.Attrs().Name)
		err := r.ensure(what, func() error {
			return netlink.RouteDel(&netlink.Route{LinkIndex: index, Dst: network, Scope: netlink.SCOPE_NOWHERE})
		})
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	for _, route := range []netlink.Route{
		{LinkIndex: index, Dst: single(address.Gateway, address.Address.IP), Scope: netlink.SCOPE_LINK, Src: address.Address.IP},
		{LinkIndex: index, Dst: network, Scope: netlink.SCOPE_UNIVERSE, Gw: address.Gateway, Src: address.Address.IP},
	} {
		if err := r.ensureRoute(link, present, route); err != nil {
			return err
		}
	}
	return nil
}

// repairHostEnd repairs the host's end, with the gateways and the routes to the addresses.
func (c *call) repairHostEnd(host netlink.Link, result *current.Result) error {
	if err := c.repair.ensureUp(host); err != nil {
		return err
	}
	addresses, err := addressesOf(host, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, address := range c.own(result) {
		gateway := single(address.Gateway, address.Address.IP)
		if !hasAddress(addresses, *gateway) {
			what := fmt.Sprintf("address %s of %s", gateway, host.Attrs().Name)
			if err := c.repair.ensure(what, func() error { return addHostAddress(host, gateway) }); err != nil {
				return err
			}
		}
	}
	return c.repairHostRoutes(host, result)
}

func (c *call) repairHostRoutes(host netlink.Link, result *current.Result) error {
	present, err := routesOf(host, unix.RT_TABLE_MAIN)
	if err != nil {
		return err
	}
	for _, address := range c.own(result) {
		wanted := netlink.Route{LinkIndex: host.Attrs().Index, Dst: single(address.Address.IP, address.Address.IP)}
		if !slices.ContainsFunc(present, func(other netlink.Route) bool { return sameRoute(other, wanted) }) {
			if err := c.repair.ensure(routeText(host, wanted), func() error { return ip.AddHostRoute(wanted.Dst, nil, host) }); err != nil {
				return err
			}
		}
		if err := c.repairForwarding(isIPv4(address.Address.IP)); err != nil {
			return err
		}
	}
	return nil
}
