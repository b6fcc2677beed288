// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ptp

import (
	"errors"
	"fmt"
	"net"
	"slices"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/iface"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/masquerade"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
)

// repair repairs the host's end, the interface inside and the masquerading.
func repair(c *plugin.Call) error {
	conf, err := parse(c)
	if err != nil {
		return err
	}
	result, err := c.RequirePrevResult()
	if err != nil {
		return err
	}
	host, err := iface.HostEnd(c, result)
	if err != nil || host == nil {
		return err
	}
	inside := iface.How{Kind: "veth", Extra: func(link netlink.Link, present []netlink.Route) error {
		for _, address := range iface.Addresses(c, result) {
			if err := ensureIndirect(c.Repair, link, present, address); err != nil {
				return err
			}
		}
		return nil
	}}
	if err := errors.Join(repairHostEnd(c, host, result), iface.Repair(c, result, inside)); err != nil {
		return err
	}
	if !conf.IPMasq {
		return nil
	}
	return masquerade.Repair(c, masquerade.Options{Backend: conf.IPMasqBackend, Egress: conf.EgressAddress}, plugin.Networks(result))
}

// ensureIndirect makes the routes that lead all packets through the gateway, and removes the
// one to the network that the kernel has made meanwhile with the link or the address.
func ensureIndirect(r *remedy.Repair, link netlink.Link, present []netlink.Route, address *current.IPConfig) error {
	index := link.Attrs().Index
	network := &net.IPNet{IP: address.Address.IP.Mask(address.Address.Mask), Mask: address.Address.Mask}
	direct := netlink.Route{LinkIndex: index, Dst: network}
	if ones, bits := address.Address.Mask.Size(); ones < bits && slices.ContainsFunc(present, func(other netlink.Route) bool { return links.SameRoute(other, direct) }) {
		what := fmt.Sprintf("route to %s of %s is not by the gateway", network, link.Attrs().Name)
		err := r.Ensure(what, func() error {
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
		if err := iface.EnsureRoute(r, link, present, route); err != nil {
			return err
		}
	}
	return nil
}

// repairHostEnd repairs the host's end, with the gateways and the routes to the addresses.
func repairHostEnd(c *plugin.Call, host netlink.Link, result *current.Result) error {
	if err := remedy.EnsureUp(c.Repair, host); err != nil {
		return err
	}
	addresses, err := links.Addresses(host, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, address := range iface.Addresses(c, result) {
		gateway := single(address.Gateway, address.Address.IP)
		if !links.HasAddress(addresses, *gateway) {
			what := fmt.Sprintf("address %s of %s", gateway, host.Attrs().Name)
			if err := c.Repair.Ensure(what, func() error { return links.AddHostAddress(host, gateway) }); err != nil {
				return err
			}
		}
	}
	return repairHostRoutes(c, host, result)
}

func repairHostRoutes(c *plugin.Call, host netlink.Link, result *current.Result) error {
	present, err := links.RoutesOf(host, unix.RT_TABLE_MAIN)
	if err != nil {
		return err
	}
	for _, address := range iface.Addresses(c, result) {
		wanted := netlink.Route{LinkIndex: host.Attrs().Index, Dst: single(address.Address.IP, address.Address.IP)}
		if !links.HasRoute(present, wanted) {
			if err := c.Repair.Ensure(links.RouteText(host, wanted), func() error { return ip.AddHostRoute(wanted.Dst, nil, host) }); err != nil {
				return err
			}
		}
		if err := c.RepairForwarding(links.IsIPv4(address.Address.IP)); err != nil {
			return err
		}
	}
	return nil
}
