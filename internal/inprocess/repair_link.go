// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// insideRepair is how the interface inside a namespace is repaired.
type insideRepair struct {
	// kind is what the link has to be.
	kind string
	// direct is whether the networks of the addresses are on the link.
	direct bool
	// extra repairs more, after the addresses; nil: nothing.
	extra func(link netlink.Link, present []netlink.Route) error
}

// repairInside repairs the interface inside the namespace, with its addresses and routes.
func repairInside(c *call, result *current.Result, how insideRepair) error {
	return within.Path(c.netns, func(ns.NetNS) error {
		link, err := links.Find(c.ifName)
		if err != nil {
			return err
		}
		if link == nil || link.Type() != how.kind {
			c.repair.Gone("interface %s in the namespace", c.ifName)
			return nil
		}
		return repairFound(c, link, result, how)
	})
}

func repairFound(c *call, link netlink.Link, result *current.Result, how insideRepair) error {
	lacking, err := lacking(c, link, result)
	if err != nil {
		return err
	}
	isPort := link.Attrs().MasterIndex != 0
	if hasMAC(c, link, result) && len(lacking) == 0 {
		if isPort { // its routes are on the bridge
			return remedy.EnsureUp(c.repair, link)
		}
	} else if err := refuseMoved(c, link, result); err != nil {
		return err
	}
	down := link.Attrs().Flags&net.FlagUp == 0
	if down && !c.repair.DryRun {
		if err := skipSearch(c, link, result); err != nil {
			return err
		}
	}
	if err := errors.Join(ensureMAC(c, link, result), remedy.EnsureUp(c.repair, link), ensureAddresses(c, link, lacking)); err != nil {
		return err
	}
	if !c.repair.DryRun && (down || len(lacking) > 0) {
		if err := awaitAccepted(c, link, result); err != nil {
			return err
		}
	}
	return ensureRoutes(c, link, result, how)
}

// refuseMoved refuses to give an interface what a task has moved behind it on purpose, as one that
// runs a virtual machine: to another link of the namespace, or to what is behind a bridge there.
func refuseMoved(c *call, link netlink.Link, result *current.Result) error {
	if master := link.Attrs().MasterIndex; master != 0 {
		return fmt.Errorf("%s is a port of %s, and something of it is missing: a task has moved it, so nothing inside is repaired", c.ifName, links.NameOf(master))
	}
	links, err := netlinksafe.LinkList()
	if err != nil {
		return err
	}
	for _, other := range links {
		if other.Attrs().Index == link.Attrs().Index {
			continue
		}
		if !hasMAC(c, link, result) && hasMAC(c, other, result) {
			return fmt.Errorf("%s has the MAC of %s: a task has moved it, so nothing inside is repaired", other.Attrs().Name, c.ifName)
		}
		present, err := netlinksafe.AddrList(other, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, address := range ownAddresses(c, result) {
			if slices.ContainsFunc(present, func(a netlink.Addr) bool { return a.IP.Equal(address.Address.IP) }) {
				return fmt.Errorf("%s has the address %s of %s: a task has moved it, so nothing inside is repaired", other.Attrs().Name, address.Address.IP, c.ifName)
			}
		}
	}
	return nil
}

// skipSearch has the kernel not look for duplicates of the IPv6 addresses that an interface has, which
// is down: it would when the interface is set up.
func skipSearch(c *call, link netlink.Link, result *current.Result) error {
	present, err := netlinksafe.AddrList(link, netlink.FAMILY_V6)
	if err != nil {
		return err
	}
	for _, address := range ownAddresses(c, result) {
		if !links.IsIPv4(address.Address.IP) && links.HasAddress(present, address.Address) {
			if err := netlink.AddrReplace(link, unsearched(address.Address)); err != nil {
				return fmt.Errorf("address %s of %s: %w", address.Address.String(), c.ifName, err)
			}
		}
	}
	return nil
}

// unsearched is an address of which the kernel looks for no duplicates: ADD has, and it takes
// seconds in which IPv6 addresses have no routes. Unlike accept_dad of the interface, this says nothing
// of addresses that a task adds, and needs no restoration.
func unsearched(address net.IPNet) *netlink.Addr {
	a := &netlink.Addr{IPNet: &address}
	if !links.IsIPv4(address.IP) {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

// acceptTimeout is how long the kernel may take to accept IPv6 addresses that are not searched.
const acceptTimeout = 500 * time.Millisecond

// awaitAccepted waits until the kernel has accepted the IPv6 addresses of the result, a little after
// the interface is up: before, it takes no routes that have them as their source. Addresses that a
// task adds are not waited for, nor is one without a carrier.
func awaitAccepted(c *call, link netlink.Link, result *current.Result) error {
	for deadline := time.Now().Add(acceptTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		now, err := netlinksafe.LinkByName(c.ifName)
		if err != nil {
			return err
		}
		present, err := netlinksafe.AddrList(link, netlink.FAMILY_V6)
		if err != nil {
			return err
		}
		tentative := slices.DeleteFunc(present, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE == 0 })
		isOwn := func(address *current.IPConfig) bool { return links.HasAddress(tentative, address.Address) }
		if now.Attrs().RawFlags&unix.IFF_LOWER_UP == 0 || !slices.ContainsFunc(ownAddresses(c, result), isOwn) {
			return nil
		}
	}
	return nil // the routes tell what is wrong
}

// ensureMAC gives the interface the MAC of the result.
func ensureMAC(c *call, link netlink.Link, result *current.Result) error {
	if hasMAC(c, link, result) {
		return nil
	}
	recorded := find(result, c.ifName, c.netns)
	what := fmt.Sprintf("MAC of %s is %s, was set up as %s", c.ifName, link.Attrs().HardwareAddr, recorded.Mac)
	return c.repair.Ensure(what, func() error { return links.SetMAC(link, recorded.Mac) })
}

// hasMAC tells whether a link has the MAC of the interface in the result, which may have none.
func hasMAC(c *call, link netlink.Link, result *current.Result) bool {
	recorded := find(result, c.ifName, c.netns)
	return recorded == nil || links.CompareMAC(link, recorded) == nil
}

// own returns the addresses of a result that the interface has.
func ownAddresses(c *call, result *current.Result) []*current.IPConfig {
	return slices.DeleteFunc(slices.Clone(result.IPs), func(address *current.IPConfig) bool {
		i := address.Interface
		return i != nil && *i >= 0 && *i < len(result.Interfaces) && result.Interfaces[*i].Name != c.ifName
	})
}

// lacking returns the addresses of the result that the interface lacks. IPv6 that is off was
// switched off on purpose.
func lacking(c *call, link netlink.Link, result *current.Result) ([]net.IPNet, error) {
	present, err := netlinksafe.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	var lacking []net.IPNet
	for _, address := range ownAddresses(c, result) {
		if !links.HasAddress(present, address.Address) && (links.IsIPv4(address.Address.IP) || !isIPv6Off(c)) {
			lacking = append(lacking, address.Address)
		}
	}
	return lacking, nil
}

func ensureAddresses(c *call, link netlink.Link, lacking []net.IPNet) error {
	var errs []error
	for _, address := range lacking {
		what := fmt.Sprintf("address %s of %s", address.String(), c.ifName)
		errs = append(errs, c.repair.Ensure(what, func() error { return addAddress(c, link, address) }))
	}
	return errors.Join(errs...)
}

// isIPv6Off tells whether the interface has no IPv6.
func isIPv6Off(c *call) bool {
	value, err := c.sysctls.Get("net/ipv6/conf/" + c.ifName + "/disable_ipv6")
	return err != nil || value == "1"
}

// addAddress gives the interface an address, as package ipam of the reference plugins does.
func addAddress(c *call, link netlink.Link, address net.IPNet) error {
	if !links.IsIPv4(address.IP) {
		if err := c.sysctls.Set("net/ipv6/conf/"+c.ifName+"/keep_addr_on_down", "1"); err != nil {
			return err
		}
	}
	return netlink.AddrAdd(link, unsearched(address))
}
