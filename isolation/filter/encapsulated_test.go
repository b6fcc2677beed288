// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// allOfLink is everyone on the link.
var allOfLink = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// encapsulations are protocols that carry packets of IPv4, or of IPv6, by their names, with what is before those.
var encapsulations = map[string]struct {
	protocol byte
	header   []byte
	inner6   bool
}{
	"IPv4": {unix.IPPROTO_IPIP, nil, false}, "IPv6": {unix.IPPROTO_IPV6, nil, true},
	"GRE": {unix.IPPROTO_GRE, []byte{0, 0, 8, 0}, false}, "GRE of IPv6": {unix.IPPROTO_GRE, []byte{0, 0, 0x86, 0xdd}, true},
}

// inner is a packet of an address of the gateway, or of the neighbour, which carries a text.
func (s *scene) inner(is6 bool, text string) []byte {
	if is6 {
		return packet6(gatewayLocal, s.neighbour.Addresses[1], unix.IPPROTO_UDP, udpText(text))
	}
	return packet4(gateway4, s.neighbour.Addresses[0], unix.IPPROTO_UDP, 0, udpText(text))
}

// legalInside are packets in packets, and behind headers, that come from who sends them: what is in them is nothing to who does not unpack it.
func (s *scene) legalInside() {
	own4, own6 := s.me.Addresses[0], s.me.Addresses[1]
	for name, e := range encapsulations {
		carry := func(text string) []byte { return append(append([]byte{}, e.header...), s.inner(e.inner6, text)...) }
		s.v4(name+" in IPv4", own4, e.protocol, 0, carry)
		s.v6(name+" in IPv6", own6, e.protocol, carry)
	}
	s.v6("UDP behind hop-by-hop", own6, hopByHop, func(text string) []byte { return options(unix.IPPROTO_UDP, udpText(text)) })
	s.v6("UDP behind a route", own6, routing, func(text string) []byte { return options(unix.IPPROTO_UDP, udpText(text)) })
	s.v6("UDP in one fragment", own6, fragment, func(text string) []byte { return fragmented(unix.IPPROTO_UDP, 0, false, udpText(text)) })
	s.v6("UDP in a first fragment", own6, fragment, func(text string) []byte { return fragmented(unix.IPPROTO_UDP, 0, true, udpText(text)) })
}

// forgedInside are the same of others.
func (s *scene) forgedInside() {
	for name, e := range encapsulations {
		carry := func(text string) []byte { return append(append([]byte{}, e.header...), s.inner(e.inner6, text)...) }
		s.v4(name+" in IPv4 of the neighbour", s.neighbour.Addresses[0], e.protocol, 0, carry)
		s.v6(name+" in IPv6 of the neighbour", s.neighbour.Addresses[1], e.protocol, carry)
		s.v6(name+" in a mapped one", mapped(s.neighbour.Addresses[0]), e.protocol, carry)
	}
}

// mapped is an address of IPv4 as one of IPv6.
func mapped(a netip.Addr) netip.Addr { return netip.AddrFrom16(a.As16()) }

// forgedFragments are packets that end within the ports by which an answer of DHCP is known: the rest may follow. Each fragment is judged by itself,
// so one that overlaps another is as the first one.
func (s *scene) forgedFragments() {
	for name, flags := range map[string]uint16{"a tiny first fragment": 0x2000, "a tiny datagram": 0} {
		s.send(name, s.neighbour.MAC, s.me.MAC, unix.ETH_P_IP, func(text string) []byte {
			return tiny4(s.me.Addresses[0], s.neighbour.Addresses[0], flags, text)
		})
	}
	for name, more := range map[string]bool{"a tiny first fragment of IPv6": true, "a tiny datagram of IPv6": false} {
		s.v6(name, s.me.Addresses[1], destinationOptions, func(text string) []byte {
			return withText(fragment, text, fragmented(unix.IPPROTO_UDP, 0, more, []byte{2}))
		})
	}
}

// tiny4 is a packet of which the datagram has one byte. The text is in an option.
func tiny4(from, to netip.Addr, flags uint16, text string) []byte {
	option := make([]byte, 40)
	option[0], option[1] = 30, byte(len(option)) // of an experiment
	copy(option[2:], text)
	packet := packet4(from, to, unix.IPPROTO_UDP, flags, append(option, 0))
	packet[0], packet[10], packet[11] = 0x4f, 0, 0
	binary.BigEndian.PutUint16(packet[10:], checksum(packet[:60]))
	return packet
}

// withText is an extension header of IPv6 with a text in its padding.
func withText(next byte, text string, payload []byte) []byte {
	header := make([]byte, (4+len(text)+7)&^7)
	header[0], header[1], header[2], header[3] = next, byte(len(header)/8-1), 1, byte(len(header)-4)
	copy(header[4:], text)
	return append(header, payload...)
}
