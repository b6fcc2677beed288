// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/isolation"
)

// readPacket reads the headers of the beginning of a packet, of which senders make what they like: what is not there is left out.
func readPacket(f *isolation.DeniedFlow, etherType uint16, packet []byte) {
	switch {
	case etherType == unix.ETH_P_ARP:
		f.Protocol = "arp"
	case etherType == unix.ETH_P_IP && len(packet) >= 20:
		f.From, f.To = addressesAt(packet, &ip4)
		rest := packet[min(int(packet[0]&0x0f)*4, len(packet)):]
		if binary.BigEndian.Uint16(packet[6:])&0x1fff != 0 { // a further fragment
			rest = nil
		}
		readTransport(f, packet[9], rest)
	case etherType == unix.ETH_P_IPV6 && len(packet) >= 40:
		f.From, f.To = addressesAt(packet, &ip6)
		next, rest := behindOptions(packet[6], packet[40:])
		readTransport(f, next, rest)
	}
}

func addressesAt(packet []byte, v *ip) (from, to netip.Addr) {
	from, _ = netip.AddrFromSlice(packet[v.from : v.from+v.size])
	to, _ = netip.AddrFromSlice(packet[v.to : v.to+v.size])
	return from, to
}

// behindOptions returns what comes after the extension headers of IPv6, as far as these are there; nothing of a further fragment.
func behindOptions(next byte, rest []byte) (byte, []byte) {
	for len(rest) >= 8 {
		length := (int(rest[1]) + 1) * 8
		switch next {
		case unix.IPPROTO_HOPOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_DSTOPTS:
		case unix.IPPROTO_AH:
			length = (int(rest[1]) + 2) * 4
		case unix.IPPROTO_FRAGMENT:
			if length = 8; binary.BigEndian.Uint16(rest[2:])&^7 != 0 {
				return rest[0], nil
			}
		default:
			return next, rest
		}
		next, rest = rest[0], rest[min(length, len(rest)):]
	}
	return next, rest
}

func readTransport(f *isolation.DeniedFlow, number byte, rest []byte) {
	f.Protocol = strconv.Itoa(int(number))
	if number == ip4.icmp || number == ip6.icmp {
		f.Protocol = "icmp"
	}
	for text, of := range protocols {
		if of == number {
			f.Protocol = text
			if len(rest) >= 4 {
				f.Port = binary.BigEndian.Uint16(rest[2:])
			}
		}
	}
}
