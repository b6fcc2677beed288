// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"errors"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
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

// TestRootGatewayOfTheLink: the link gets the gateway's address unless it has it itself, whatever routes say: an operator's may look as those
// that the kernel makes for an address, which is another link's.
func TestRootGatewayOfTheLink(t *testing.T) {
	roottest.Require(t)
	gateway := net.IPNet{IP: net.IPv4(10, 88, 0, 1).To4(), Mask: net.CIDRMask(24, 32)}
	for name, mask := range map[string]net.IPMask{"its own": gateway.Mask, "a shorter prefix": net.CIDRMask(16, 32), "of another link": nil} {
		netnstest.Run(t, func() error {
			made, other := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "other"}}
			if err := errors.Join(netlink.LinkAdd(made), netlink.LinkSetUp(made), netlink.LinkAdd(other), netlink.LinkSetUp(other)); err != nil {
				return err
			}
			link, err := netlink.LinkByName("br0")
			if err != nil {
				return err
			}
			has := func(link netlink.Link, address net.IPNet) error {
				return netlink.AddrAdd(link, &netlink.Addr{IPNet: &address})
			}
			want := net.IPNet{IP: gateway.IP, Mask: mask}
			if mask != nil {
				err = has(link, want)
			} else {
				want.Mask = gateway.Mask
				network := &net.IPNet{IP: gateway.IP.Mask(gateway.Mask), Mask: gateway.Mask}
				err = errors.Join(has(other, net.IPNet{IP: gateway.IP, Mask: net.CIDRMask(32, 32)}), netlink.RouteAdd(&netlink.Route{
					LinkIndex: link.Attrs().Index, Dst: network, Scope: netlink.SCOPE_LINK, Protocol: unix.RTPROT_KERNEL, Src: gateway.IP,
				}))
			}
			if err := errors.Join(err, ensureAddress(link, gateway)); err != nil {
				return err
			}
			found, err := links.Addresses(link, netlink.FAMILY_V4)
			if len(found) != 1 || found[0].IPNet.String() != want.String() {
				t.Errorf("%s: the bridge has %v, want %s", name, found, &want)
			}
			return err
		})
	}
}
