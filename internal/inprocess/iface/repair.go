// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

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
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
)

// How is how the interface inside a namespace is repaired.
type How struct {
	// Kind is what the link has to be.
	Kind string
	// Direct is whether the networks of the addresses are on the link.
	Direct bool
	// Extra repairs more, after the addresses; nil: nothing.
	Extra func(link netlink.Link, present []netlink.Route) error
}

// Repair repairs the interface inside the namespace, with its addresses and routes. That the interface is gone, only DEL and
// ADD can change: it is noted as unrepairable.
func Repair(c *plugin.Call, result *current.Result, how How) error {
	if c.Repair.Moved {
		return nil
	}
	return within.Path(c.Netns, func(ns.NetNS) error {
		link, err := links.Find(c.IfName)
		if err != nil {
			return err
		}
		if link == nil || link.Type() != how.Kind {
			c.Repair.Gone("interface %s in the namespace", c.IfName)
			return nil
		}
		return repairFound(c, link, result, how)
	})
}

func repairFound(c *plugin.Call, link netlink.Link, result *current.Result, how How) error {
	lacking, err := lacking(c, link, result)
	if err != nil {
		return err
	}
	isPort := link.Attrs().MasterIndex != 0
	if hasMAC(c, link, result) && len(lacking) == 0 {
		if isPort { // its routes are on the bridge
			return remedy.EnsureUp(c.Repair, link)
		}
	} else if err := refuseMoved(c, link, result); err != nil {
		return err
	}
	down := link.Attrs().Flags&net.FlagUp == 0
	if down && !c.Repair.DryRun {
		if err := skipSearch(c, link, result); err != nil {
			return err
		}
	}
	if err := errors.Join(ensureMAC(c, link, result), remedy.EnsureUp(c.Repair, link), ensureAddresses(c, link, lacking)); err != nil {
		return err
	}
	if !c.Repair.DryRun && (down || len(lacking) > 0) {
		if err := awaitAccepted(c, link, result); err != nil {
			return err
		}
	}
	return ensureRoutes(c, link, result, how)
}

// refuseMoved refuses to give an interface what a task has moved behind it on purpose, as one that
// runs a virtual machine: to another link of the namespace, or to what is behind a bridge there.
func refuseMoved(c *plugin.Call, link netlink.Link, result *current.Result) error {
	if master := link.Attrs().MasterIndex; master != 0 {
		return fmt.Errorf("%s is a port of %s, and something of it is missing: a task has moved it, so nothing inside is repaired", c.IfName, links.NameOf(master))
	}
	all, err := netns.Whole(netlink.LinkList)
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.Attrs().Index == link.Attrs().Index {
			continue
		}
		if !hasMAC(c, link, result) && hasMAC(c, other, result) {
			return fmt.Errorf("%s has the MAC of %s: a task has moved it, so nothing inside is repaired", other.Attrs().Name, c.IfName)
		}
		present, err := links.Addresses(other, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, address := range Addresses(c, result) {
			if slices.ContainsFunc(present, func(a netlink.Addr) bool { return a.IP.Equal(address.Address.IP) }) {
				return fmt.Errorf("%s has the address %s of %s: a task has moved it, so nothing inside is repaired", other.Attrs().Name, address.Address.IP, c.IfName)
			}
		}
	}
	return nil
}

// skipSearch has the kernel not look for duplicates of the IPv6 addresses that an interface has, which
// is down: it would when the interface is set up.
func skipSearch(c *plugin.Call, link netlink.Link, result *current.Result) error {
	present, err := links.Addresses(link, netlink.FAMILY_V6)
	if err != nil {
		return err
	}
	for _, address := range Addresses(c, result) {
		if !links.IsIPv4(address.Address.IP) && links.HasAddress(present, address.Address) {
			if err := netlink.AddrReplace(link, links.Unsearched(address.Address)); err != nil {
				return fmt.Errorf("address %s of %s: %w", address.Address.String(), c.IfName, err)
			}
		}
	}
	return nil
}

// acceptTimeout is how long the kernel may take to accept IPv6 addresses that are not searched.
const acceptTimeout = 500 * time.Millisecond

// awaitAccepted waits until the kernel has accepted the IPv6 addresses of the result, a little after
// the interface is up: before, it takes no routes that have them as their source. Addresses that a
// task adds are not waited for, nor is one without a carrier.
func awaitAccepted(c *plugin.Call, link netlink.Link, result *current.Result) error {
	for deadline := time.Now().Add(acceptTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		now, err := netlinksafe.LinkByName(c.IfName)
		if err != nil {
			return err
		}
		present, err := links.Addresses(link, netlink.FAMILY_V6)
		if err != nil {
			return err
		}
		tentative := slices.DeleteFunc(present, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE == 0 })
		isOwn := func(address *current.IPConfig) bool { return links.HasAddress(tentative, address.Address) }
		if now.Attrs().RawFlags&unix.IFF_LOWER_UP == 0 || !slices.ContainsFunc(Addresses(c, result), isOwn) {
			return nil
		}
	}
	return nil // the routes tell what is wrong
}

func ensureMAC(c *plugin.Call, link netlink.Link, result *current.Result) error {
	if hasMAC(c, link, result) {
		return nil
	}
	recorded := plugin.Find(result, c.IfName, c.Netns)
	what := fmt.Sprintf("MAC of %s is %s, was set up as %s", c.IfName, link.Attrs().HardwareAddr, recorded.Mac)
	return c.Repair.Ensure(what, func() error { return links.SetMAC(link, recorded.Mac) })
}

// hasMAC tells whether a link has the MAC of the interface in the result, which may have none.
func hasMAC(c *plugin.Call, link netlink.Link, result *current.Result) bool {
	recorded := plugin.Find(result, c.IfName, c.Netns)
	return recorded == nil || links.HasMAC(link, recorded)
}

// Addresses returns the addresses of a result that the interface has.
func Addresses(c *plugin.Call, result *current.Result) []*current.IPConfig {
	return slices.DeleteFunc(slices.Clone(result.IPs), func(address *current.IPConfig) bool {
		i := address.Interface
		return i != nil && *i >= 0 && *i < len(result.Interfaces) && result.Interfaces[*i].Name != c.IfName
	})
}

// lacking returns the addresses of the result that the interface lacks. IPv6 that is off was
// switched off on purpose.
func lacking(c *plugin.Call, link netlink.Link, result *current.Result) ([]net.IPNet, error) {
	present, err := links.Addresses(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	var lacking []net.IPNet
	for _, address := range Addresses(c, result) {
		if !links.HasAddress(present, address.Address) && (links.IsIPv4(address.Address.IP) || !isIPv6Off(c)) {
			lacking = append(lacking, address.Address)
		}
	}
	return lacking, nil
}

func ensureAddresses(c *plugin.Call, link netlink.Link, lacking []net.IPNet) error {
	var errs []error
	for _, address := range lacking {
		what := fmt.Sprintf("address %s of %s", address.String(), c.IfName)
		errs = append(errs, c.Repair.Ensure(what, func() error { return addAddress(c, link, address) }))
	}
	return errors.Join(errs...)
}

func isIPv6Off(c *plugin.Call) bool {
	value, err := c.Sysctls.Get("net/ipv6/conf/" + c.IfName + "/disable_ipv6")
	return err != nil || value == "1"
}

// addAddress gives the interface an address, as package ipam of the reference plugins does.
func addAddress(c *plugin.Call, link netlink.Link, address net.IPNet) error {
	if !links.IsIPv4(address.IP) {
		if err := c.Sysctls.Set("net/ipv6/conf/"+c.IfName+"/keep_addr_on_down", "1"); err != nil {
			return err
		}
	}
	return netlink.AddrAdd(link, links.Unsearched(address))
}
