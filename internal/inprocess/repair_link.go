// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// findLink returns a link of this namespace; nil if there is none of that name.
func findLink(name string) (netlink.Link, error) {
	found, err := existing([]string{name})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// ensureUp sets a link up if it is down.
func (r *Repair) ensureUp(link netlink.Link) error {
	if link.Attrs().Flags&net.FlagUp != 0 {
		return nil
	}
	return r.ensure("interface "+link.Attrs().Name+" is down", func() error { return netlink.LinkSetUp(link) })
}

// ensureSysctl sets a parameter to a value. A kernel without the parameter needs no repair.
func (c *call) ensureSysctl(key, value string) error {
	present, err := c.sysctls.Get(key)
	if err != nil || sameParameter(present, value) || c.isKernelForm(key, value, present) {
		return nil //nolint:nilerr // see above
	}
	return c.repair.ensure(fmt.Sprintf("%s is %s, was set to %s", key, present, value), func() error { return c.sysctls.Set(key, value) })
}

// sameParameter compares values of a parameter as the kernel reads them: numbers of any base, between
// any spaces.
func sameParameter(present, value string) bool {
	return slices.EqualFunc(strings.Fields(present), strings.Fields(value), func(a, b string) bool {
		x, errA := strconv.ParseInt(a, 0, 64)
		y, errB := strconv.ParseInt(b, 0, 64)
		return a == b || errA == nil && errB == nil && x == y
	})
}

// isKernelForm tells whether the kernel prints a value of a parameter as it is present: ranges, masks and
// names have other forms, and bounds. The kernel itself tells, in an empty network namespace, where lo stands
// for the interface.
func (c *call) isKernelForm(key, value, present string) bool {
	empty, err := netns.New()
	if err != nil {
		return false
	}
	defer empty.Close() //nolint:errcheck // it ends with that
	parts := strings.Split(key, "/")
	if at := slices.Index(parts, c.ifName); at >= 0 {
		parts[at] = "lo"
	}
	var printed string
	err = empty.Do(func() (err error) {
		sysctls := sysctl.Tree{}
		defer sysctls.Close() //nolint:errcheck // read only
		if err = sysctls.Set(strings.Join(parts, "/"), value); err == nil {
			printed, err = sysctls.Get(strings.Join(parts, "/"))
		}
		return err
	})
	return err == nil && printed == present
}

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
func (c *call) repairInside(result *current.Result, how insideRepair) error {
	return withinPath(c.netns, func(ns.NetNS) error {
		link, err := findLink(c.ifName)
		if err != nil {
			return err
		}
		if link == nil || link.Type() != how.kind {
			c.repair.gone("interface %s in the namespace", c.ifName)
			return nil
		}
		return c.repairFound(link, result, how)
	})
}

func (c *call) repairFound(link netlink.Link, result *current.Result, how insideRepair) error {
	lacking, err := c.lacking(link, result)
	if err != nil {
		return err
	}
	isPort := link.Attrs().MasterIndex != 0
	if c.hasMAC(link, result) && len(lacking) == 0 {
		if isPort { // its routes are on the bridge
			return c.repair.ensureUp(link)
		}
	} else if err := c.refuseMoved(link, result); err != nil {
		return err
	}
	down := link.Attrs().Flags&net.FlagUp == 0
	if down && !c.repair.DryRun {
		if err := c.skipSearch(link, result); err != nil {
			return err
		}
	}
	if err := errors.Join(c.ensureMAC(link, result), c.repair.ensureUp(link), c.ensureAddresses(link, lacking)); err != nil {
		return err
	}
	if !c.repair.DryRun && (down || len(lacking) > 0) {
		if err := c.awaitAccepted(link, result); err != nil {
			return err
		}
	}
	return c.ensureRoutes(link, result, how)
}

// refuseMoved refuses to give an interface what a task has moved behind it on purpose, as one that
// runs a virtual machine: to another link of the namespace, or to what is behind a bridge there.
func (c *call) refuseMoved(link netlink.Link, result *current.Result) error {
	if master := link.Attrs().MasterIndex; master != 0 {
		return fmt.Errorf("%s is a port of %s, and something of it is missing: a task has moved it, so nothing inside is repaired", c.ifName, linkName(master))
	}
	links, err := netns.Whole(netlink.LinkList)
	if err != nil {
		return err
	}
	for _, other := range links {
		if other.Attrs().Index == link.Attrs().Index {
			continue
		}
		if !c.hasMAC(link, result) && c.hasMAC(other, result) {
			return fmt.Errorf("%s has the MAC of %s: a task has moved it, so nothing inside is repaired", other.Attrs().Name, c.ifName)
		}
		present, err := addressesOf(other, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, address := range c.own(result) {
			if slices.ContainsFunc(present, func(a netlink.Addr) bool { return a.IP.Equal(address.Address.IP) }) {
				return fmt.Errorf("%s has the address %s of %s: a task has moved it, so nothing inside is repaired", other.Attrs().Name, address.Address.IP, c.ifName)
			}
		}
	}
	return nil
}

// linkName returns the name of a link of this namespace, or its index if it is gone.
func linkName(index int) string {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Sprintf("interface %d", index)
	}
	return link.Attrs().Name
}

// skipSearch has the kernel not look for duplicates of the IPv6 addresses that an interface has, which
// is down: it would when the interface is set up.
func (c *call) skipSearch(link netlink.Link, result *current.Result) error {
	present, err := addressesOf(link, netlink.FAMILY_V6)
	if err != nil {
		return err
	}
	for _, address := range c.own(result) {
		if !isIPv4(address.Address.IP) && hasAddress(present, address.Address) {
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
	if !isIPv4(address.IP) {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

// acceptTimeout is how long the kernel may take to accept IPv6 addresses that are not searched.
const acceptTimeout = 500 * time.Millisecond

// awaitAccepted waits until the kernel has accepted the IPv6 addresses of the result, a little after
// the interface is up: before, it takes no routes that have them as their source. Addresses that a
// task adds are not waited for, nor is one without a carrier.
func (c *call) awaitAccepted(link netlink.Link, result *current.Result) error {
	for deadline := time.Now().Add(acceptTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		now, err := netlinksafe.LinkByName(c.ifName)
		if err != nil {
			return err
		}
		present, err := addressesOf(link, netlink.FAMILY_V6)
		if err != nil {
			return err
		}
		tentative := slices.DeleteFunc(present, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE == 0 })
		isOwn := func(address *current.IPConfig) bool { return hasAddress(tentative, address.Address) }
		if now.Attrs().RawFlags&unix.IFF_LOWER_UP == 0 || !slices.ContainsFunc(c.own(result), isOwn) {
			return nil
		}
	}
	return nil // the routes tell what is wrong
}

// ensureMAC gives the interface the MAC of the result.
func (c *call) ensureMAC(link netlink.Link, result *current.Result) error {
	if c.hasMAC(link, result) {
		return nil
	}
	recorded := find(result, c.ifName, c.netns)
	what := fmt.Sprintf("MAC of %s is %s, was set up as %s", c.ifName, link.Attrs().HardwareAddr, recorded.Mac)
	return c.repair.ensure(what, func() error { return setMAC(link, recorded.Mac) })
}

// hasMAC tells whether a link has the MAC of the interface in the result, which may have none.
func (c *call) hasMAC(link netlink.Link, result *current.Result) bool {
	recorded := find(result, c.ifName, c.netns)
	return recorded == nil || compareMAC(link, recorded) == nil
}

// own returns the addresses of a result that the interface has.
func (c *call) own(result *current.Result) []*current.IPConfig {
	return slices.DeleteFunc(slices.Clone(result.IPs), func(address *current.IPConfig) bool {
		i := address.Interface
		return i != nil && *i >= 0 && *i < len(result.Interfaces) && result.Interfaces[*i].Name != c.ifName
	})
}

// lacking returns the addresses of the result that the interface lacks. IPv6 that is off was
// switched off on purpose.
func (c *call) lacking(link netlink.Link, result *current.Result) ([]net.IPNet, error) {
	present, err := addressesOf(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	var lacking []net.IPNet
	for _, address := range c.own(result) {
		if !hasAddress(present, address.Address) && (isIPv4(address.Address.IP) || !c.isIPv6Off()) {
			lacking = append(lacking, address.Address)
		}
	}
	return lacking, nil
}

func (c *call) ensureAddresses(link netlink.Link, lacking []net.IPNet) error {
	var errs []error
	for _, address := range lacking {
		what := fmt.Sprintf("address %s of %s", address.String(), c.ifName)
		errs = append(errs, c.repair.ensure(what, func() error { return c.addAddress(link, address) }))
	}
	return errors.Join(errs...)
}

func hasAddress(present []netlink.Addr, address net.IPNet) bool {
	return slices.ContainsFunc(present, func(a netlink.Addr) bool { return a.IPNet.String() == address.String() })
}

// isIPv6Off tells whether the interface has no IPv6.
func (c *call) isIPv6Off() bool {
	value, err := c.sysctls.Get("net/ipv6/conf/" + c.ifName + "/disable_ipv6")
	return err != nil || value == "1"
}

// addAddress gives the interface an address, as package ipam of the reference plugins does.
func (c *call) addAddress(link netlink.Link, address net.IPNet) error {
	if !isIPv4(address.IP) {
		if err := c.sysctls.Set("net/ipv6/conf/"+c.ifName+"/keep_addr_on_down", "1"); err != nil {
			return err
		}
	}
	return netlink.AddrAdd(link, unsearched(address))
}
