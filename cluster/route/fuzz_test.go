// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// FuzzTarget: whatever another host writes, the kernel gets no route beside the pool's blocks, over
// this host's own, or to this host itself, and others keep what they have.
func FuzzTarget(f *testing.F) {
	f.Add("10.60.1.0/26", "192.0.2.2", "fe80::2", macB, uint8(0))
	f.Add("fd60::40/122", "2001:db8::2", "", "", uint8(1))
	f.Add("0.0.0.0/0", "192.0.2.1", "::", "ff:ff:ff:ff:ff:ff", uint8(2))
	f.Fuzz(func(t *testing.T, block, address, linkLocal, mac string, mode uint8) {
		k, p := newFake(), testPool([]ipam.Mode{ipam.ModeRouted, ipam.ModeVXLAN, ipam.ModeAuto}[mode%3])
		table := start(t, k, p)
		foreign, own := k.foreignState(), []netip.Prefix{cidr("10.60.9.0/26")}
		var target Target
		target.Block, _ = netip.ParsePrefix(block)
		target.Endpoint.MAC = mac
		target.Endpoint.Address, _ = netip.ParseAddr(address)
		target.Endpoint.LinkLocal, _ = netip.ParseAddr(linkLocal)
		if _, err := table.Apply(p, own, []Target{target}); err != nil {
			t.Fatal(err)
		}
		for _, e := range k.routes {
			if e.unreachable {
				continue
			}
			in := p.Subnets[0].Contains(e.prefix.Addr()) || p.Subnets[1].Contains(e.prefix.Addr())
			if !in || e.prefix.Bits() != p.blockBits(e.prefix) || own[0].Overlaps(e.prefix) || e.prefix != e.prefix.Masked() || k.linkOf(e.via) != nil || !e.via.IsValid() || e.via.IsMulticast() || e.via.IsLoopback() {
				t.Errorf("%q, %q, %q, %q: %s", block, address, linkLocal, mac, e)
			}
		}
		if k.foreignState() != foreign {
			t.Errorf("others have:\n%s", k.foreignState())
		}
	})
}

// FuzzEvent: no message stops the reader.
func FuzzEvent(f *testing.F) {
	for _, kind := range []uint16{unix.RTM_NEWLINK, unix.RTM_NEWADDR, unix.RTM_DELROUTE, unix.RTM_NEWNEIGH} {
		f.Add(kind, make([]byte, 40))
	}
	f.Fuzz(func(_ *testing.T, kind uint16, data []byte) {
		_, _ = eventOf(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}, Data: data})
	})
}
