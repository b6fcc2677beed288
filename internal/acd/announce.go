// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package acd

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// Announce tells the hosts of a link that an interface has addresses, so that they forget which had them before: an ARP
// announcement (RFC 5227) or an unsolicited neighbour advertisement (RFC 4861) for each. Addresses that the interface does not have,
// or not yet, are left out: they may be another's. It works in the network namespace of the calling thread.
func Announce(name string, addresses []netip.Addr) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("announce addresses on %s: %w", name, err)
	}
	attrs := link.Attrs()
	if len(attrs.HardwareAddr) != 6 || attrs.Flags&net.FlagUp == 0 {
		return nil // no host of its link asks for addresses
	}
	present, err := netns.Whole(func() ([]netlink.Addr, error) { return netns.AddressesOf(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("announce addresses on %s: %w", name, err)
	}
	var errs []error
	for _, a := range present {
		address, _ := netip.AddrFromSlice(a.IP)
		if address = address.Unmap(); a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 || !slices.Contains(addresses, address) {
			continue
		}
		if err := announce(attrs, present, address); err != nil {
			errs = append(errs, fmt.Errorf("announce %s on %s: %w", address, name, err))
		}
	}
	return errors.Join(errs...)
}

// announce tells the hosts of a link that an interface of it has an address.
func announce(link *netlink.LinkAttrs, present []netlink.Addr, address netip.Addr) error {
	switch {
	case address.Is6():
		return advertise(link, address)
	case isAsking(link.Name) && isSender(present, address) && askForOwn(link.Index, address) == nil: // others may change the entry at the same time, and have filled the kernel's table
		return nil
	}
	return broadcast(link, arpAnnouncement(link.HardwareAddr, address))
}

// isAsking tells whether the kernel asks for addresses of IPv4 itself, and at once. It may leave that to a program.
func isAsking(name string) bool {
	of := func(key string) string { value, _ := sysctl.Get("net/ipv4/neigh/" + name + "/" + key); return value } // without it the kernel is not asked
	return of("app_solicit") == "0" && of("mcast_solicit") > "0"
}

// isSender tells whether the kernel asks for an address of IPv4 as the sender that it names: that is the first primary address of the interface in
// whose network it is. A published address is in the network of one that the host has.
func isSender(present []netlink.Addr, address netip.Addr) bool {
	i := slices.IndexFunc(present, func(a netlink.Addr) bool {
		return a.Flags&unix.IFA_F_SECONDARY == 0 && a.Scope <= int(netlink.SCOPE_LINK) && cmp.Or(a.Peer, a.IPNet).Contains(address.AsSlice())
	})
	return i >= 0 && present[i].IP.Equal(address.AsSlice())
}

// askForOwn has the kernel ask for an address of an interface with that as the sender, which is what an ARP announcement is. To close a socket that
// sends it takes ten milliseconds. The kernel would ask again unless it is to forget the entry, and would not ask for an entry that it has.
func askForOwn(index int, address netip.Addr) error {
	n := &netlink.Neigh{LinkIndex: index, Family: unix.AF_INET, Flags: netlink.NTF_USE, IP: address.AsSlice()}
	if err := netlink.NeighDel(n); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := netlink.NeighSet(n); err != nil {
		return err
	}
	return netlink.NeighDel(n)
}

// broadcast sends a packet of ARP to all hosts of a link.
func broadcast(link *netlink.LinkAttrs, packet []byte) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // it receives nothing
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // the packet is sent
	to := &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ARP), Ifindex: link.Index, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	return unix.Sendto(fd, packet, 0, to)
}

const (
	overrides    = 0x20 // the entries that hosts have
	targetOption = 2
	targetLength = 8
)

// advertisement is a message of ICMPv6 that says who has an address. Its checksum is left to the kernel.
func advertisement(own net.HardwareAddr, address netip.Addr) []byte {
	message := make([]byte, neighborMessage+targetLength)
	message[0], message[4] = neighborAdvertise, overrides
	copy(message[8:], address.AsSlice())
	message[neighborMessage], message[neighborMessage+1] = targetOption, targetLength/8
	copy(message[neighborMessage+2:], own)
	return message
}

// advertise sends an advertisement of a neighbour, which nothing has asked for, to all nodes of a link.
func advertise(link *netlink.LinkAttrs, address netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // the packet is sent
	const hopLimit = 255 // a router would have made it less
	all := &unix.SockaddrInet6{Addr: netip.MustParseAddr("ff02::1").As16(), ZoneId: uint32(link.Index)}
	return cmp.Or(
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, hopLimit),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 0),
		unix.Bind(fd, &unix.SockaddrInet6{Addr: address.As16(), ZoneId: uint32(link.Index)}),
		unix.Sendto(fd, advertisement(link.HardwareAddr, address), 0, all),
	)
}
