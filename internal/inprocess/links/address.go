// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package links

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
)

// IsIPv4 tells the family of an address.
func IsIPv4(ip net.IP) bool { return ip.To4() != nil }

// HostNetwork returns the network that has only one address.
func HostNetwork(ip net.IP) net.IPNet {
	bits := 8 * len(netfilter.IPBytes(ip))
	return net.IPNet{IP: ip, Mask: net.CIDRMask(bits, bits)}
}

// AddHostAddress gives an address to a link of the host. The error is EEXIST if the link has it.
func AddHostAddress(link netlink.Link, address *net.IPNet) error {
	err := netlink.AddrAdd(link, &netlink.Addr{IPNet: address})
	if errors.Is(err, unix.EACCES) && !IsIPv4(address.IP) {
		name := link.Attrs().Name
		return fmt.Errorf("%w: IPv6 is switched off on %s of the host: switch it on (sysctl net.ipv6.conf.%s.disable_ipv6=0, and net.ipv6.conf.default.disable_ipv6=0 for new ones), or remove the network's IPv6 addresses", err, name, name)
	}
	return err
}

// Addresses returns the addresses of a link, or of all if it is nil. A listing that changes have interrupted is repeated.
func Addresses(link netlink.Link, family int) ([]netlink.Addr, error) {
	return netns.Whole(func() ([]netlink.Addr, error) {
		if link != nil {
			return netns.AddressesOf(link, family)
		}
		return netlink.AddrList(nil, family)
	})
}

// GlobalAddresses returns the addresses of a link, of both families, but for those of the link alone.
func GlobalAddresses(link netlink.Link) ([]net.IPNet, error) {
	found, err := Addresses(link, netlink.FAMILY_ALL)
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

// Unsearched is an address of which the kernel looks for no duplicates: ADD has, and it takes
// seconds in which IPv6 addresses have no routes. Unlike accept_dad of the interface, this says nothing
// of addresses that a task adds, and needs no restoration.
func Unsearched(address net.IPNet) *netlink.Addr {
	a := &netlink.Addr{IPNet: &address}
	if !IsIPv4(address.IP) {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

// HasAddress tells whether an address is present with the same length of its prefix.
func HasAddress(present []netlink.Addr, address net.IPNet) bool {
	return slices.ContainsFunc(present, func(a netlink.Addr) bool { return a.IPNet.String() == address.String() })
}

// RemoveAddresses removes addresses from a link; one that it does not have is fine. One of IPv6 it may have with another length.
func RemoveAddresses(link netlink.Link, addresses []netip.Prefix) error {
	var errs []error
	for _, p := range addresses {
		err := MakeRoom(link, *netns.IPNet(p))
		if err == nil {
			err = removeAddress(link, netns.IPNet(p))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// MakeRoom removes an IPv6 address that a link has with another length, as by router advertisements: the kernel gives it none twice.
func MakeRoom(link netlink.Link, address net.IPNet) error {
	if IsIPv4(address.IP) {
		return nil
	}
	present, err := Addresses(link, netlink.FAMILY_V6)
	for _, a := range present {
		if a.IP.Equal(address.IP) && !slices.Equal(a.Mask, address.Mask) {
			err = errors.Join(err, removeAddress(link, a.IPNet))
		}
	}
	return err
}

func removeAddress(link netlink.Link, address *net.IPNet) error {
	err := netlink.AddrDel(link, &netlink.Addr{IPNet: address})
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove %s from %s: %w", address, link.Attrs().Name, err)
	}
	return nil
}
