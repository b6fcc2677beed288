// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package acd

import (
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"testing"
)

var (
	own   = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	other = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

// TestARP: an answer, an announcement and the probe of another host are conflicts.
func TestARP(t *testing.T) {
	wanted, neighbor := netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.6")
	if got, want := hex.EncodeToString(arpProbe(own, wanted)), "0001080006040001020000000001000000000000000000000a000005"; got != want {
		t.Errorf("the probe is %s, want %s", got, want)
	}
	packet := func(operation byte, mac net.HardwareAddr, sender, target string) []byte {
		p := append(bytes.Clone(arpHeader), 0, operation)
		p = append(append(p, mac...), netip.MustParseAddr(sender).AsSlice()...)
		return append(append(p, make([]byte, 6)...), netip.MustParseAddr(target).AsSlice()...)
	}
	for name, test := range map[string]struct {
		packet []byte
		want   bool
	}{
		"reply":                          {packet(2, other, "10.0.0.5", "0.0.0.0"), true},
		"announcement":                   {packet(1, other, "10.0.0.5", "10.0.0.5"), true},
		"probe of another":               {packet(1, other, "0.0.0.0", "10.0.0.5"), true},
		"own probe":                      {packet(1, own, "0.0.0.0", "10.0.0.5"), false},
		"reply of another":               {packet(2, other, "10.0.0.6", "0.0.0.0"), false},
		"request for it":                 {packet(1, other, "10.0.0.6", "10.0.0.5"), false},
		"probe for another":              {packet(1, other, "0.0.0.0", "10.0.0.6"), false},
		"short":                          {packet(2, other, "10.0.0.5", "0.0.0.0")[:27], false},
		"of another protocol":            {append([]byte{0, 1, 0x86, 0xdd, 6, 4}, packet(2, other, "10.0.0.5", "0.0.0.0")[6:]...), false},
		"nothing":                        {nil, false},
		"reply for " + neighbor.String(): {packet(2, other, neighbor.String(), "10.0.0.5"), false},
	} {
		if got := arpConflict(test.packet, wanted, own); got != test.want {
			t.Errorf("%s: conflict %t", name, got)
		}
	}
}

// TestNeighbor: an advertisement and the question of another host before it has the address
// are conflicts.
func TestNeighbor(t *testing.T) {
	wanted := netip.MustParseAddr("fd00::5")
	question := solicitation(wanted)
	if sum := ChecksumIPv6(question); sum != 0 { // over a packet with its checksum
		t.Errorf("the checksum is wrong by %#x", sum)
	}
	packet := func(kind byte, source, target string) []byte {
		p := solicitation(netip.MustParseAddr(target))
		copy(p[8:], netip.MustParseAddr(source).AsSlice())
		p[headerLength] = kind
		return p
	}
	far := packet(neighborAdvertise, "fd00::5", "fd00::5")
	far[7] = 254
	for name, test := range map[string]struct {
		packet []byte
		want   bool
	}{
		"advertisement":                {packet(neighborAdvertise, "fd00::5", "fd00::5"), true},
		"question before having it":    {packet(neighborSolicit, "::", "fd00::5"), true},
		"own question":                 {question, false},
		"question of a neighbor":       {packet(neighborSolicit, "fd00::6", "fd00::5"), false},
		"advertisement of another":     {packet(neighborAdvertise, "fd00::6", "fd00::6"), false},
		"question for another":         {packet(neighborSolicit, "::", "fd00::6"), false},
		"advertisement through router": {far, false},
		"echo":                         {packet(128, "fd00::5", "fd00::5"), false},
		"short":                        {packet(neighborAdvertise, "fd00::5", "fd00::5")[:headerLength+neighborMessage-1], false},
	} {
		if got := neighborConflict(test.packet, question, wanted); got != test.want {
			t.Errorf("%s: conflict %t", name, got)
		}
	}
}

// TestAnnouncement: what an interface says of its addresses, which detection takes for a conflict.
func TestAnnouncement(t *testing.T) {
	four := arpAnnouncement(own, netip.MustParseAddr("10.0.0.5"))
	if got, want := hex.EncodeToString(four), "00010800060400010200000000010a0000050000000000000a000005"; got != want {
		t.Errorf("the announcement is %s, want %s", got, want)
	}
	if !arpConflict(four, netip.MustParseAddr("10.0.0.5"), other) {
		t.Error("another host does not see a conflict with it")
	}
	message := advertisement(own, netip.MustParseAddr("fd00::5"))
	if message[0] != neighborAdvertise || message[4] != overrides || !bytes.Equal(message[neighborMessage:], append([]byte{targetOption, 1}, own...)) {
		t.Errorf("the message is %x", message)
	}
	header := make([]byte, headerLength)
	header[6], header[7] = icmpv6, 255
	if !neighborConflict(append(header, message...), solicitation(netip.MustParseAddr("fd00::5")), netip.MustParseAddr("fd00::5")) {
		t.Error("another host does not see a conflict with it")
	}
}
