// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package links

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestSameRoute(t *testing.T) {
	network := func(text string) *net.IPNet {
		_, n, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	present := netlink.Route{Table: unix.RT_TABLE_MAIN, Dst: network("10.0.0.0/24"), Gw: net.IPv4(10, 0, 0, 1), Src: net.IPv4(10, 0, 0, 5), Priority: 7, Family: netlink.FAMILY_V4}
	wanted := netlink.Route{Dst: network("10.0.0.0/24"), Gw: net.IPv4(10, 0, 0, 1)}
	for name, test := range map[string]struct {
		change func(*netlink.Route)
		same   bool
	}{
		"as it is":             {func(*netlink.Route) {}, true},
		"its metric":           {func(r *netlink.Route) { r.Priority = 7 }, true},
		"another metric":       {func(r *netlink.Route) { r.Priority = 8 }, false},
		"another gateway":      {func(r *netlink.Route) { r.Gw = net.IPv4(10, 0, 0, 2) }, false},
		"no gateway":           {func(r *netlink.Route) { r.Gw = nil }, false},
		"another table":        {func(r *netlink.Route) { r.Table = 100 }, false},
		"another network":      {func(r *netlink.Route) { r.Dst = network("10.0.0.0/25") }, false},
		"another source":       {func(r *netlink.Route) { r.Src = net.IPv4(10, 0, 0, 6) }, false},
		"a source of a kernel": {func(r *netlink.Route) { r.Src, r.Protocol = net.IPv4(10, 0, 0, 6), unix.RTPROT_KERNEL }, true},
	} {
		route := wanted
		test.change(&route)
		if got := SameRoute(present, route); got != test.same {
			t.Errorf("%s: %v", name, got)
		}
	}
	for family, dst := range map[int]string{netlink.FAMILY_V4: "0.0.0.0/0", netlink.FAMILY_V6: "::/0"} {
		if !SameRoute(netlink.Route{Table: unix.RT_TABLE_MAIN, Family: family}, netlink.Route{Dst: network(dst)}) {
			t.Errorf("a default route without a destination is not %s", dst)
		}
	}
}
