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
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inNamespace runs f in the namespace of the attachment, unless it is gone.
func (c *call) inNamespace(f func() error) error {
	if c.netns == "" {
		return nil
	}
	err := withinPath(c.netns, func(ns.NetNS) error { return f() })
	var gone ns.NSPathNotExistErr
	if errors.As(err, &gone) {
		return nil
	}
	return err
}

// removeLink leaves the link of the attachment to be removed, and returns its addresses, which
// rules were made for: those of the result of ADD, and those that the link has. The plugins
// leave the rules of a link that is gone.
func (c *call) removeLink() (addresses []net.IPNet, err error) {
	if result, err := c.prevResult(); err == nil && result != nil {
		addresses = networks(result)
	}
	err = c.inNamespace(func() error {
		link, err := c.removeNamed(c.ifName)
		if err != nil || link == nil {
			return err
		}
		found, err := globalAddresses(link)
		for _, address := range found {
			known := func(other net.IPNet) bool { return other.String() == address.String() }
			if !slices.ContainsFunc(addresses, known) {
				addresses = append(addresses, address)
			}
		}
		return err
	})
	return addresses, err
}

// removeNamed leaves a link of this namespace, which is the attachment's, to be removed, and
// returns it; nil if there is none of that name.
func (c *call) removeNamed(name string) (netlink.Link, error) {
	found, err := existing([]string{name})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	c.changes.removeLink(c.netns, name)
	return found[0], nil
}

// addHostAddress gives an address to a link of the host.
func addHostAddress(link netlink.Link, address *net.IPNet) error {
	err := netlink.AddrAdd(link, &netlink.Addr{IPNet: address})
	if errors.Is(err, unix.EACCES) && !isIPv4(address.IP) {
		name := link.Attrs().Name
		return fmt.Errorf("%w: IPv6 is switched off on %s of the host: switch it on (sysctl net.ipv6.conf.%s.disable_ipv6=0, and net.ipv6.conf.default.disable_ipv6=0 for new ones), or remove the network's IPv6 addresses", err, name, name)
	}
	return err
}

func globalAddresses(link netlink.Link) ([]net.IPNet, error) {
	found, err := addressesOf(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	var addresses []net.IPNet
	for _, a := range found {
		if a.IP.IsGlobalUnicast() {
			addresses = append(addresses, *a.IPNet)
		}
	}
	return addresses, nil
}

// checkAddresses compares the addresses and routes of a result with the attachment's
// interface.
func (c *call) checkAddresses(result *current.Result) error {
	if err := ip.ValidateExpectedInterfaceIPs(c.ifName, result.IPs); err != nil {
		return err
	}
	return ip.ValidateExpectedRoute(result.Routes)
}

// checkLink compares the interface in the namespace with the result: its kind, MAC, addresses
// and routes. Before that the IPAM plugin checks, if there is one.
func (c *call) checkLink(ipam string, checkKind func(netlink.Link) error) error {
	netns, err := ns.GetNS(c.netns)
	if err != nil {
		return fmt.Errorf("failed to open netns %q: %w", c.netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	if ipam != "" {
		if err := c.checkIPAM(ipam); err != nil {
			return err
		}
	}
	result, err := c.requirePrevResult()
	if err != nil {
		return err
	}
	recorded := find(result, c.ifName, c.netns)
	if recorded == nil {
		return fmt.Errorf("prevResult has no interface %s in %s", c.ifName, c.netns)
	}
	return within(netns, func(ns.NetNS) error {
		link, err := netlinksafe.LinkByName(c.ifName)
		if err != nil {
			return fmt.Errorf("interface %s not found: %w", c.ifName, err)
		}
		if err := checkKind(link); err != nil {
			return err
		}
		if err := compareMAC(link, recorded); err != nil {
			return err
		}
		return c.checkAddresses(result)
	})
}

// networks returns the addresses of a result.
func networks(result *current.Result) []net.IPNet {
	all := make([]net.IPNet, len(result.IPs))
	for i, address := range result.IPs {
		all[i] = address.Address
	}
	return all
}

// interfaceOf returns a link as results have it; one of the host has no sandbox.
func interfaceOf(link netlink.Link, sandbox string) *current.Interface {
	attrs := link.Attrs()
	return &current.Interface{Name: attrs.Name, Mac: attrs.HardwareAddr.String(), Sandbox: sandbox}
}
