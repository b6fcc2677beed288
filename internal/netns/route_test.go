// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootRoutes: the kernel selects routes by table and interface, of a family, and the caller leaves out
// some. Other requests with the handle are as before.
func TestRootRoutes(t *testing.T) {
	roottest.Require(t)
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	index := map[string]int{"lo": 1}
	for _, name := range []string{"a", "b"} {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
		if err := n.link.LinkAdd(bridge); err != nil {
			t.Fatal(err)
		}
		if err := n.link.LinkSetUp(bridge); err != nil {
			t.Fatal(err)
		}
		index[name] = bridge.Index
	}
	for _, r := range []struct {
		dst, dev string
		table    int
	}{
		{"10.0.0.0/8", "a", unix.RT_TABLE_MAIN}, {"11.0.0.0/8", "a", 77}, {"12.0.0.0/8", "a", 20000}, {"13.0.0.0/8", "b", unix.RT_TABLE_MAIN},
		{"14.0.0.0/8", "b", 20000}, {"15.0.0.0/8", "b", 20000}, {"fd00:16::/64", "a", 20000},
	} {
		dst, err := netlink.ParseIPNet(r.dst)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.link.RouteAdd(&netlink.Route{Dst: dst, LinkIndex: index[r.dev], Table: r.table}); err != nil {
			t.Fatal(err)
		}
	}
	keepAll := func(netlink.Route) bool { return true }
	for name, test := range map[string]struct {
		family int
		filter netlink.Route
		limit  int
		keep   func(netlink.Route) bool
		want   []string
	}{
		"main table":             {netlink.FAMILY_V4, netlink.Route{Table: unix.RT_TABLE_MAIN}, 0, nil, []string{"10.0.0.0/8", "13.0.0.0/8"}},
		"its routes through one": {netlink.FAMILY_V4, netlink.Route{Table: unix.RT_TABLE_MAIN, LinkIndex: index["b"]}, 0, keepAll, []string{"13.0.0.0/8"}},
		"a table":                {netlink.FAMILY_V4, netlink.Route{Table: 77}, 0, nil, []string{"11.0.0.0/8"}},
		"a table above 255":      {netlink.FAMILY_V4, netlink.Route{Table: 20000, LinkIndex: index["b"]}, 0, nil, []string{"14.0.0.0/8", "15.0.0.0/8"}},
		"the other family":       {netlink.FAMILY_V6, netlink.Route{Table: 20000}, 0, nil, []string{"fd00:16::/64"}},
		"a limit":                {netlink.FAMILY_V4, netlink.Route{Table: 20000, LinkIndex: index["b"]}, 1, nil, []string{"14.0.0.0/8"}},
		"some":                   {netlink.FAMILY_V4, netlink.Route{Table: 20000}, 0, func(r netlink.Route) bool { return r.LinkIndex == index["a"] }, []string{"12.0.0.0/8"}},
		"no table":               {netlink.FAMILY_V4, netlink.Route{Table: 78}, 0, nil, nil},
		"no table of IPv6":       {netlink.FAMILY_V6, netlink.Route{Table: 78}, 0, nil, nil},
	} {
		routes, err := Routes(n.link, test.family, test.filter, test.limit, test.keep)
		var got []string
		for _, r := range routes {
			got = append(got, r.Dst.String())
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, test.want)
		}
	}
	all, err := Routes(n.link, netlink.FAMILY_V4, netlink.Route{}, 0, nil)
	if got := fmt.Sprint(len(all)); err != nil || len(all) < 6 {
		t.Errorf("%s routes of all tables, %v", got, err)
	}
	if links, err := n.link.LinkList(); err != nil || len(links) != 3 {
		t.Errorf("%d links, %v", len(links), err)
	}
}
