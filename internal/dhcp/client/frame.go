// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"encoding/binary"
	"net/netip"
)

// Ports of DHCP.
const (
	clientPort = 68
	serverPort = 67
)

const (
	ipHeader  = 20
	udpHeader = 8
	udp       = 17
)

// encode returns a message as an IPv4 packet from the port of clients to that of servers. The kernel does neither for an interface
// without an address.
func encode(message []byte, from, to netip.Addr) []byte {
	p := make([]byte, ipHeader+udpHeader)
	source, destination := from.As4(), to.As4()
	p[0], p[8], p[9] = 4<<4|ipHeader/4, 64, udp
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)+len(message)))
	copy(p[12:], source[:])
	copy(p[16:], destination[:])
	binary.BigEndian.PutUint16(p[10:], checksum(p[:ipHeader]))
	binary.BigEndian.PutUint16(p[ipHeader:], clientPort)
	binary.BigEndian.PutUint16(p[ipHeader+2:], serverPort)
	binary.BigEndian.PutUint16(p[ipHeader+4:], uint16(udpHeader+len(message)))
	return append(p, message...) // without a checksum of UDP, as IPv4 allows: that of Ethernet covers it
}

// decode returns the message of an IPv4 packet to the port of clients, and where it is from. Anyone on the link can send anything.
func decode(p []byte) (message []byte, from netip.Addr, ok bool) {
	if len(p) < ipHeader || p[0]>>4 != 4 || p[9] != udp || binary.BigEndian.Uint16(p[6:])&0x3fff != 0 { // a fragment
		return nil, from, false
	}
	header, total := int(p[0]&0xf)*4, int(binary.BigEndian.Uint16(p[2:]))
	if header < ipHeader || total > len(p) || total < header+udpHeader {
		return nil, from, false
	}
	datagram := p[header:total]
	length := int(binary.BigEndian.Uint16(datagram[4:]))
	isAnswer := binary.BigEndian.Uint16(datagram) == serverPort && binary.BigEndian.Uint16(datagram[2:]) == clientPort
	if !isAnswer || length < udpHeader || length > len(datagram) {
		return nil, from, false
	}
	return datagram[udpHeader:length], netip.AddrFrom4([4]byte(p[12:16])), true
}

// checksum is that of a header of IPv4.
func checksum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
