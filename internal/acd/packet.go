// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package acd

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
)

// arpHeader is that of a packet of IPv4 over Ethernet, without the operation.
var arpHeader = []byte{0, 1, 8, 0, 6, 4}

// arpProbe asks who has an address, without saying that the sender has one.
func arpProbe(own net.HardwareAddr, address netip.Addr) []byte {
	return arpRequest(own, netip.IPv4Unspecified(), address)
}

// arpAnnouncement says that the sender has an address.
func arpAnnouncement(own net.HardwareAddr, address netip.Addr) []byte {
	return arpRequest(own, address, address)
}

func arpRequest(own net.HardwareAddr, sender, target netip.Addr) []byte {
	packet := append(bytes.Clone(arpHeader), 0, 1)
	packet = append(append(packet, own...), sender.AsSlice()...)
	return append(append(packet, make([]byte, 6)...), target.AsSlice()...)
}

// arpConflict returns whether a packet is from a host that has the address, or probes for it, and that has none of these MACs.
func arpConflict(packet []byte, address netip.Addr, own ...net.HardwareAddr) bool {
	isOwn := func(mac net.HardwareAddr) bool { return bytes.Equal(packet[8:14], mac) }
	if len(packet) < 28 || !bytes.Equal(packet[:6], arpHeader) || slices.ContainsFunc(own, isOwn) {
		return false
	}
	sender, target, wanted := packet[14:18], packet[24:28], address.AsSlice()
	isProbe := packet[7] == 1 && bytes.Equal(sender, make([]byte, 4)) && bytes.Equal(target, wanted)
	return isProbe || bytes.Equal(sender, wanted)
}

const (
	headerLength       = 40
	icmpv6             = 58
	neighborSolicit    = 135
	neighborAdvertise  = 136
	neighborMessage    = 24 // with the target, without options
	nonceOption        = 14 // RFC 3971
	nonceOptionLength  = 8
	solicitationLength = headerLength + neighborMessage + nonceOptionLength
)

// solicitedNode is the group that hosts join which have an address.
func solicitedNode(address netip.Addr) netip.Addr {
	group, bytes := netip.MustParseAddr("ff02::1:ff00:0").As16(), address.As16()
	copy(group[13:], bytes[13:])
	return netip.AddrFrom16(group)
}

// solicitation is an IPv6 packet that asks who has an address. The nonce tells it from that of
// another host, if it comes back (RFC 7527).
func solicitation(address netip.Addr) []byte {
	packet := make([]byte, solicitationLength)
	packet[0] = 6 << 4
	binary.BigEndian.PutUint16(packet[4:], solicitationLength-headerLength)
	packet[6], packet[7] = icmpv6, 255
	copy(packet[24:], solicitedNode(address).AsSlice()) // the source is unspecified
	message := packet[headerLength:]
	message[0] = neighborSolicit
	copy(message[8:], address.AsSlice())
	message[neighborMessage], message[neighborMessage+1] = nonceOption, nonceOptionLength/8
	_, _ = rand.Read(message[neighborMessage+2:]) // it never fails
	binary.BigEndian.PutUint16(message[2:], ChecksumIPv6(packet))
	return packet
}

// ChecksumIPv6 is that of the message of an IPv6 packet, with its addresses (RFC 8200, section 8.1), which has a field for it: 0 with the
// right one in it.
func ChecksumIPv6(packet []byte) uint16 {
	message := packet[headerLength:]
	length := binary.BigEndian.AppendUint32(nil, uint32(len(message)))
	return Checksum(packet[8:headerLength], length, []byte{0, packet[6]}, message)
}

// Checksum is the one of the internet (RFC 1071) of what parts have in a row, of which only the last one may have an odd length.
func Checksum(parts ...[]byte) uint16 {
	sum := uint32(0)
	for _, part := range parts {
		for i, b := range part {
			if i%2 == 0 {
				sum += uint32(b) << 8
			} else {
				sum += uint32(b)
			}
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// neighborConflict returns whether a packet is from a host that has the address, or asks for it
// because it is about to have it. Its own question is none.
func neighborConflict(packet, question []byte, address netip.Addr) bool {
	if len(packet) < headerLength+neighborMessage || packet[6] != icmpv6 || packet[7] != 255 || bytes.Equal(packet, question) {
		return false
	}
	source, message := packet[8:24], packet[headerLength:]
	if !bytes.Equal(message[8:24], address.AsSlice()) {
		return false
	}
	isUnspecified := bytes.Equal(source, make([]byte, 16))
	return message[0] == neighborAdvertise || message[0] == neighborSolicit && isUnspecified
}
