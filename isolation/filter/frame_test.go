// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
)

// frame makes an Ethernet frame.
func frame(to, from net.HardwareAddr, kind uint16, payload ...byte) []byte {
	return append(binary.BigEndian.AppendUint16(slices.Concat([]byte(to), []byte(from)), kind), payload...)
}

// tagged puts a tag of a VLAN before the type of a frame.
func tagged(kind, vlan uint16, inner []byte) []byte {
	tag := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, kind), vlan)
	return slices.Concat(inner[:12], tag, inner[12:])
}

// packet4 makes a packet of IPv4. offset has the flags of fragments, too.
func packet4(from, to netip.Addr, protocol byte, offset uint16, payload []byte) []byte {
	header := []byte{0x45, 0, 0, 0, 0, 7, 0, 0, 64, protocol, 0, 0}
	binary.BigEndian.PutUint16(header[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(header[6:], offset)
	header = slices.Concat(header, from.AsSlice(), to.AsSlice())
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	return append(header, payload...)
}

// packet6 makes a packet of IPv6.
func packet6(from, to netip.Addr, next byte, payload []byte) []byte {
	header := []byte{0x60, 0, 0, 0, 0, 0, next, 255}
	binary.BigEndian.PutUint16(header[4:], uint16(len(payload)))
	return slices.Concat(header, from.AsSlice(), to.AsSlice(), payload)
}

// Extension headers of IPv6.
const (
	hopByHop           = 0
	routing            = 43
	fragment           = 44
	authentication     = 51
	destinationOptions = 60
)

// options are an extension header of 8 bytes, with padding.
func options(next byte, payload []byte) []byte {
	return append([]byte{next, 0, 1, 4, 0, 0, 0, 0}, payload...)
}

// fragmented is the header of a fragment.
func fragmented(next byte, offset uint16, more bool, payload []byte) []byte {
	field := offset << 3
	if more {
		field |= 1
	}
	return append([]byte{next, 0, byte(field >> 8), byte(field), 0, 0, 0, 9}, payload...)
}

func datagram(from, to uint16, text string) []byte {
	header := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, from), to)
	return append(append(binary.BigEndian.AppendUint16(header, uint16(8+len(text))), 0, 0), text...)
}

// icmp6 makes a message of neighbour discovery, with a target and the address of the link as an option.
func icmp6(kind byte, from, to, target netip.Addr, mac net.HardwareAddr, text string) []byte {
	body := slices.Concat([]byte{kind, 0, 0, 0, 0x60, 0, 0, 0}, target.AsSlice(), []byte{2, 1}, mac, []byte(text))
	pseudo := slices.Concat(from.AsSlice(), to.AsSlice(), []byte{0, 0, 0, byte(len(body)), 0, 0, 0, 58}, body)
	binary.BigEndian.PutUint16(body[2:], checksum(pseudo))
	return body
}

// arpOf makes a message of ARP.
func arpOf(operation byte, fromMAC net.HardwareAddr, from netip.Addr, toMAC net.HardwareAddr, to netip.Addr, text string) []byte {
	return slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, operation}, fromMAC, from.AsSlice(), toMAC, to.AsSlice(), []byte(text))
}
