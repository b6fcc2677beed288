// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package acd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
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
		if err := announcementOf(attrs.HardwareAddr, address).send(attrs.Index); err != nil {
			errs = append(errs, fmt.Errorf("announce %s on %s: %w", address, name, err))
		}
	}
	return errors.Join(errs...)
}

// announcement is a packet for all hosts of a link.
type announcement struct {
	etherType  uint16
	to, packet []byte
}

func announcementOf(own net.HardwareAddr, address netip.Addr) announcement {
	if address.Is4() {
		packet := append(bytes.Clone(arpHeader), 0, 1)
		packet = append(append(packet, own...), address.AsSlice()...)
		packet = append(append(packet, make([]byte, 6)...), address.AsSlice()...)
		return announcement{unix.ETH_P_ARP, bytes.Repeat([]byte{0xff}, 6), packet}
	}
	return announcement{unix.ETH_P_IPV6, []byte{0x33, 0x33, 0, 0, 0, 1}, advertisement(own, address)}
}

const (
	overrides         = 0x20 // the entries that hosts have
	targetOption      = 2
	targetLength      = 8
	advertisementSize = headerLength + neighborMessage + targetLength
)

// advertisement is an IPv6 packet to all nodes that says who has an address.
func advertisement(own net.HardwareAddr, address netip.Addr) []byte {
	packet := make([]byte, advertisementSize)
	packet[0] = 6 << 4
	binary.BigEndian.PutUint16(packet[4:], advertisementSize-headerLength)
	packet[6], packet[7] = icmpv6, 255
	copy(packet[8:], address.AsSlice())
	copy(packet[24:], netip.MustParseAddr("ff02::1").AsSlice())
	message := packet[headerLength:]
	message[0], message[4] = neighborAdvertise, overrides
	copy(message[8:], address.AsSlice())
	message[neighborMessage], message[neighborMessage+1] = targetOption, targetLength/8
	copy(message[neighborMessage+2:], own)
	binary.BigEndian.PutUint16(message[2:], ChecksumIPv6(packet))
	return packet
}

func (a announcement) send(index int) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // it receives nothing
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // the packet is sent
	to := &unix.SockaddrLinklayer{Protocol: networkOrder(a.etherType), Ifindex: index, Halen: uint8(len(a.to))}
	copy(to.Addr[:], a.to)
	return unix.Sendto(fd, a.packet, 0, to)
}
