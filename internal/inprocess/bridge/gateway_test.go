// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
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
