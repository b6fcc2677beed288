// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/isolation/filter"
)

// sourceRouted has a packet of IPv4 be sent on to another address (RFC 791).
func sourceRouted(packet []byte, to netip.Addr) []byte {
	header := slices.Concat(packet[:20], []byte{131, 7, 4}, to.AsSlice(), []byte{0})
	header[0] = 0x47
	binary.BigEndian.PutUint16(header[2:], uint16(len(packet)+8))
	binary.BigEndian.PutUint16(header[10:], 0)
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	return append(header, packet[20:]...)
}

// TestRootRoutedBySource: an attachment reaches none that it may not by a packet that is for the host at first, where the host takes routes from
// packets.
func TestRootRoutedBySource(t *testing.T) {
	roottest.Require(t)
	all := attackers()
	state := filter.State{}
	for i, p := range all {
		state.Members = append(state.Members, p.member(i))
	}
	ends := append(parties()[:2], all...)
	h, p := build(t, ends, func() filter.State { return state })
	h.in(t, h.Namespace, func() error {
		return errors.Join(os.WriteFile("/proc/sys/net/ipv4/conf/all/accept_source_route", []byte("1"), 0), os.WriteFile("/proc/sys/net/ipv4/conf/br-s/accept_source_route", []byte("1"), 0))
	})
	me, near := state.Members[0], state.Members[1]
	gateway, atNear, atHost := bridgeMAC(t, h, me.Bridge), captureAt(t, h.inside[near.ID], "eth0"), captureAt(t, h.Namespace, me.Bridge)
	send := func(name string, to netip.Addr, route func([]byte) []byte) {
		packet := packet4(me.Addresses[0], to, unix.IPPROTO_UDP, 0, datagram(5000, probePort, frameText+name+string(frameEnd)))
		inject(t, h.inside[me.ID], map[string][]byte{name: frame(gateway, me.MAC, unix.ETH_P_IP, route(packet)...)})
	}
	for i := range 3 {
		after := fmt.Sprint("after it ", i)
		sandbox.Eventually(t, "the host is reached", func() bool {
			send("routed", netip.MustParseAddr("10.1.0.1"), func(packet []byte) []byte { return sourceRouted(packet, near.Addresses[0]) })
			send(after, ends[0].addresses[0], func(packet []byte) []byte { return packet })
			return atHost.has("routed") && p.has(frameText+after+string(frameEnd))
		})
	}
	if atNear.has("routed") {
		t.Error("a packet that is routed by its source has reached a neighbour that is apart")
	}
}
