// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"errors"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestGatewayWithAnotherPrefix: the gateway's IP is enough with a prefix of which the range is a part, or with a route that
// leads to the range.
func TestGatewayWithAnotherPrefix(t *testing.T) {
	network := func(text string) net.IPNet {
		ip, n, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return net.IPNet{IP: ip, Mask: n.Mask}
	}
	for name, test := range map[string]struct {
		gateway, present string
		flags            int
		want             bool
	}{
		"the same":               {"10.88.0.1/24", "10.88.0.1/24", 0, true},
		"a shorter prefix":       {"10.88.0.1/24", "10.88.0.1/16", 0, true},
		"a longer prefix":        {"10.88.0.1/24", "10.88.0.1/28", 0, false},
		"without its route":      {"10.88.0.1/24", "10.88.0.1/16", unix.IFA_F_NOPREFIXROUTE, false},
		"another address":        {"10.88.0.1/24", "10.88.0.2/16", 0, false},
		"IPv6, a shorter prefix": {"fd00:88::1/64", "fd00:88::1/48", 0, true},
		"IPv6, a longer prefix":  {"fd00:88::1/64", "fd00:88::1/112", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			present := network(test.present)
			if got := hasWide([]netlink.Addr{{IPNet: &present, Flags: test.flags}}, network(test.gateway)); got != test.want {
				t.Errorf("%t", got)
			}
		})
	}
	route := func(dst string, gw net.IP) []netlink.Route {
		to := network(dst)
		return []netlink.Route{{Dst: &to, Gw: gw}}
	}
	if !leads(route("10.88.0.0/24", nil), network("10.88.0.1/24")) || !leads(route("10.0.0.0/8", nil), network("10.88.0.1/24")) {
		t.Error("a route to the network does not lead there")
	}
	for _, routes := range [][]netlink.Route{nil, route("10.88.0.0/28", nil), route("10.88.0.0/24", net.IPv4(10, 88, 0, 9)), {{Dst: nil}}} {
		if leads(routes, network("10.88.0.1/24")) {
			t.Errorf("%v leads there", routes)
		}
	}
}

// TestRootRoutes: the kernel's route by the gateway proves that the link has its address; no other route does.
func TestRootRoutes(t *testing.T) {
	roottest.Require(t)
	gateway := net.IPNet{IP: net.IPv4(10, 88, 0, 1).To4(), Mask: net.CIDRMask(24, 32)}
	other := net.IPNet{IP: net.IPv4(10, 88, 0, 2).To4(), Mask: gateway.Mask}
	network := &net.IPNet{IP: net.IPv4(10, 88, 0, 0).To4(), Mask: gateway.Mask}
	for name, test := range map[string]struct {
		prepare func(link netlink.Link) error
		want    bool
	}{
		"nothing":         {func(netlink.Link) error { return nil }, false},
		"the gateway":     {func(link netlink.Link) error { return netlink.AddrAdd(link, &netlink.Addr{IPNet: &gateway}) }, true},
		"another address": {func(link netlink.Link) error { return netlink.AddrAdd(link, &netlink.Addr{IPNet: &other}) }, false},
		"a shorter prefix": {func(link netlink.Link) error {
			return netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: gateway.IP, Mask: net.CIDRMask(16, 32)}})
		}, false},
		"a route of an operator": {func(link netlink.Link) error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: network, Scope: netlink.SCOPE_LINK})
		}, false},
	} {
		netnstest.Run(t, func() error {
			link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
			if err := errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link), test.prepare(link)); err != nil {
				return err
			}
			lo, err := netlink.LinkByName("lo")
			if got := routes(link, gateway); got != test.want || err == nil && routes(lo, gateway) {
				t.Errorf("%s: %t, want %t, and never by another link", name, got, test.want)
			}
			return err
		})
	}
}
