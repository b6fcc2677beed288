// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/allocnet/allocnet/internal/acd"
)

// Ports of DHCP, and of DHCPv6.
const (
	clientPort     = 68
	serverPort     = 67
	clientPortIPv6 = 546
	serverPortIPv6 = 547
)

const (
	ipHeader   = 20
	ipv6Header = 40
	udpHeader  = 8
	udp        = 17
)

// allServers is the group of all servers and relays of DHCPv6 of a link, and allServersHop its link-layer address.
var (
	allServers    = netip.MustParseAddr("ff02::1:2")
	allServersHop = net.HardwareAddr{0x33, 0x33, 0, 1, 0, 2}
)

// encode returns a message as an IPv4 packet from the port of clients to that of servers. The kernel does neither for an interface
// without an address.
func encode(message []byte, from, to netip.Addr) []byte {
	p := make([]byte, ipHeader, ipHeader+udpHeader+len(message))
	source, destination := from.As4(), to.As4()
	p[0], p[8], p[9] = 4<<4|ipHeader/4, 64, udp
	binary.BigEndian.PutUint16(p[2:], uint16(ipHeader+udpHeader+len(message)))
	copy(p[12:], source[:])
	copy(p[16:], destination[:])
	binary.BigEndian.PutUint16(p[10:], acd.Checksum(p))
	return appendDatagram(p, clientPort, serverPort, message) // without a checksum of UDP, as IPv4 allows: that of Ethernet covers it
}

// encodeIPv6 returns a message as an IPv6 packet from the port of clients to that of all servers: a socket of the kernel would be the
// only one with that port, and an allocation may have its own.
func encodeIPv6(message []byte, from netip.Addr) []byte {
	p := make([]byte, ipv6Header, ipv6Header+udpHeader+len(message))
	source, destination := from.As16(), allServers.As16()
	p[0], p[6], p[7] = 6<<4, udp, 1
	binary.BigEndian.PutUint16(p[4:], uint16(udpHeader+len(message)))
	copy(p[8:], source[:])
	copy(p[24:], destination[:])
	p = appendDatagram(p, clientPortIPv6, serverPortIPv6, message)
	sum := acd.ChecksumIPv6(p)
	if sum == 0 { // which would say that there is none
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(p[ipv6Header+6:], sum)
	return p
}

// appendDatagram appends a datagram of UDP without a checksum.
func appendDatagram(p []byte, from, to uint16, message []byte) []byte {
	p = binary.BigEndian.AppendUint16(p, from)
	p = binary.BigEndian.AppendUint16(p, to)
	p = binary.BigEndian.AppendUint16(p, uint16(udpHeader+len(message))) //nolint:gosec // a message is shorter than a packet
	return append(append(p, 0, 0), message...)
}

// decode returns the message of an IPv4 packet to the port of clients, and where it is from. Anyone on the link can send anything.
func decode(p []byte) (message []byte, from netip.Addr, ok bool) {
	if len(p) < ipHeader || p[0]>>4 != 4 || p[9] != udp || binary.BigEndian.Uint16(p[6:])&0x3fff != 0 { // a fragment
		return nil, from, false
	}
	header := int(p[0]&0xf) * 4
	if header < ipHeader {
		return nil, from, false
	}
	message, ok = messageOf(p, header, int(binary.BigEndian.Uint16(p[2:])), serverPort, clientPort)
	return message, netip.AddrFrom4([4]byte(p[12:16])), ok
}

// decodeIPv6 is decode for a packet of IPv6.
func decodeIPv6(p []byte) (message []byte, from netip.Addr, ok bool) {
	if len(p) < ipv6Header || p[0]>>4 != 6 || p[6] != udp {
		return nil, from, false
	}
	message, ok = messageOf(p, ipv6Header, ipv6Header+int(binary.BigEndian.Uint16(p[4:])), serverPortIPv6, clientPortIPv6)
	return message, netip.AddrFrom16([16]byte(p[8:24])), ok
}

// messageOf returns what the datagram of a packet has for a port. The packet has a header and a total length, after which is padding.
func messageOf(p []byte, header, total int, from, to uint16) (message []byte, ok bool) {
	if total > len(p) || total < header+udpHeader {
		return nil, false
	}
	datagram := p[header:total]
	length := int(binary.BigEndian.Uint16(datagram[4:]))
	if binary.BigEndian.Uint16(datagram) != from || binary.BigEndian.Uint16(datagram[2:]) != to || length < udpHeader || length > len(datagram) {
		return nil, false
	}
	return datagram[udpHeader:length], true
}
