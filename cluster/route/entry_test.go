// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"net"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestNextHops: of several next hops that IPv6 shows as one route, the first may be ours; one route of IPv4 is
// of one program.
func TestNextHops(t *testing.T) {
	hops := func(addresses ...string) (all []*netlink.NexthopInfo) {
		for _, a := range addresses {
			all = append(all, &netlink.NexthopInfo{LinkIndex: 2, Gw: net.ParseIP(a)})
		}
		return all
	}
	for name, test := range map[string]struct {
		family   int
		prefix   string
		protocol netlink.RouteProtocol
		hops     []*netlink.NexthopInfo
		want     []entry
	}{
		"IPv6, ours first": {netlink.FAMILY_V6, "fd60::40/122", Protocol, hops("fe80::2", "fe80::9"), []entry{
			{prefix: cidr("fd60::40/122"), via: ip("fe80::2"), device: "eth0", ours: true}, {prefix: cidr("fd60::40/122"), via: ip("fe80::9"), device: "eth0"},
		}},
		"IPv6, another's": {netlink.FAMILY_V6, "fd60::40/122", 99, hops("fe80::2", "fe80::9"), []entry{
			{prefix: cidr("fd60::40/122"), via: ip("fe80::2"), device: "eth0"}, {prefix: cidr("fd60::40/122"), via: ip("fe80::9"), device: "eth0"},
		}},
		"IPv4, ours":      {netlink.FAMILY_V4, "10.60.1.0/26", Protocol, hops("192.0.2.2", "192.0.2.9"), []entry{{prefix: cidr("10.60.1.0/26"), ours: true, odd: true}}},
		"IPv4, another's": {netlink.FAMILY_V4, "10.60.1.0/26", 99, hops("192.0.2.2"), []entry{{prefix: cidr("10.60.1.0/26"), via: ip("192.0.2.2"), device: "eth0"}}},
	} {
		_, prefix, err := net.ParseCIDR(test.prefix)
		if err != nil {
			t.Fatal(err)
		}
		r := netlink.Route{Family: test.family, Dst: prefix, Protocol: test.protocol, Type: unix.RTN_UNICAST, MultiPath: test.hops}
		got := entriesOf(r, map[int]string{2: "eth0"})
		if len(got) != len(test.want) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s: %+v, want %+v", name, got[i], test.want[i])
			}
		}
	}
}

// TestNextHopAdded: another program's next hop is noticed, although the kernel tells our protocol.
func TestNextHopAdded(t *testing.T) {
	data := append([]byte{unix.AF_INET6, 122, 0, 0, unix.RT_TABLE_MAIN, Protocol, 0, unix.RTN_UNICAST, 0, 0, 0, 0}, 4, 0, unix.RTA_MULTIPATH, 0)
	if e, _ := eventOf(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWROUTE}, Data: data}); e.kind != routeEvent || e.ours {
		t.Errorf("%+v", e)
	}
}
