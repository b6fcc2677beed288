// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// Ports of DHCPv6.
const (
	clientPortIPv6 = 546
	serverPortIPv6 = 547
)

const ipv6Header = 40

// allServers is the group of all servers and relays of a link, and allServersHop its link-layer address.
var (
	allServers    = netip.MustParseAddr("ff02::1:2")
	allServersHop = net.HardwareAddr{0x33, 0x33, 0, 1, 0, 2}
)

// encodeIPv6 returns a message as an IPv6 packet from the port of clients to that of all servers: a socket of the kernel would be the
// only one with that port, and an allocation may have its own.
func encodeIPv6(message []byte, from netip.Addr) []byte {
	p := make([]byte, ipv6Header+udpHeader)
	length := uint16(udpHeader + len(message)) //nolint:gosec // a message is shorter than a packet
	source, destination := from.As16(), allServers.As16()
	p[0], p[6], p[7] = 6<<4, udp, 1
	binary.BigEndian.PutUint16(p[4:], length)
	copy(p[8:], source[:])
	copy(p[24:], destination[:])
	datagram := p[ipv6Header:]
	binary.BigEndian.PutUint16(datagram, clientPortIPv6)
	binary.BigEndian.PutUint16(datagram[2:], serverPortIPv6)
	binary.BigEndian.PutUint16(datagram[4:], length)
	p = append(p, message...)
	binary.BigEndian.PutUint16(p[ipv6Header+6:], checksumIPv6(p))
	return p
}

// checksumIPv6 is that of the datagram of a packet, with its addresses (RFC 8200, section 8.1). Zero is written in ones.
func checksumIPv6(p []byte) uint16 {
	datagram := p[ipv6Header:]
	sum := uint32(len(datagram)) + udp
	for _, part := range [][]byte{p[8:ipv6Header], datagram} {
		for i, b := range part {
			if i%2 == 0 {
				sum += uint32(b) << 8
			} else {
				sum += uint32(b)
			}
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	if sum == 0xffff {
		return 0xffff
	}
	return ^uint16(sum)
}

// decodeIPv6 returns the message of an IPv6 packet to the port of clients, and where it is from. Anyone on the link can send anything.
func decodeIPv6(p []byte) (message []byte, from netip.Addr, ok bool) {
	if len(p) < ipv6Header+udpHeader || p[0]>>4 != 6 || p[6] != udp {
		return nil, from, false
	}
	total := ipv6Header + int(binary.BigEndian.Uint16(p[4:]))
	if total > len(p) || total < ipv6Header+udpHeader {
		return nil, from, false
	}
	datagram := p[ipv6Header:total]
	length := int(binary.BigEndian.Uint16(datagram[4:]))
	isAnswer := binary.BigEndian.Uint16(datagram) == serverPortIPv6 && binary.BigEndian.Uint16(datagram[2:]) == clientPortIPv6
	if !isAnswer || length < udpHeader || length > len(datagram) {
		return nil, from, false
	}
	return datagram[udpHeader:length], netip.AddrFrom16([16]byte(p[8:24])), true
}
