// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// TestGatewayRoutes: IPv4 has the halves of the subnet, and IPv6 all but a sixteenth around the
// gateway, of which no address is assigned.
func TestGatewayRoutes(t *testing.T) {
	for ranges, want := range map[string]string{
		`{"subnet": "10.0.0.0/24"}`:                          "10.0.0.128/25 10.0.0.1, 10.0.0.0/25 10.0.0.1; 10.0.0.1-10.0.0.254",
		`{"subnet": "10.0.0.0/24", "gateway": "10.0.0.254"}`: "10.0.0.0/25 10.0.0.254, 10.0.0.128/25 10.0.0.254; 10.0.0.1-10.0.0.254",
		`{"subnet": "10.0.0.0/30"}`:                          "10.0.0.2/31 10.0.0.1, 10.0.0.0/31 10.0.0.1; 10.0.0.1-10.0.0.2",
		`{"subnet": "fd00::/64"}`:                            "fd00::8000:0:0:0/65 fd00::1, fd00::4000:0:0:0/66 fd00::1, fd00::2000:0:0:0/67 fd00::1, fd00::1000:0:0:0/68 fd00::1; fd00::1000:0:0:0-fd00::ffff:ffff:ffff:ffff",
		`{"subnet": "fd00::/120", "gateway": "fd00::ff"}`:    "fd00::/121 fd00::ff, fd00::80/122 fd00::ff, fd00::c0/123 fd00::ff, fd00::e0/124 fd00::ff; fd00::1-fd00::ef",
		`{"subnet": "fd00::/126"}`:                           "fd00::2/127 fd00::1, fd00::/128 fd00::1; fd00::1-fd00::3",
		`{"subnet": "fd00::/123"}`:                           "fd00::10/124 fd00::1, fd00::8/125 fd00::1, fd00::4/126 fd00::1, fd00::2/127 fd00::1; fd00::2-fd00::1f",
		`{"subnet": "fd00::/120", "rangeStart": "fd00::80"}, {"subnet": "fd00::/120", "rangeEnd": "fd00::7f"}`: "fd00::80/121 fd00::1, fd00::40/122 fd00::1, fd00::20/123 fd00::1, fd00::10/124 fd00::1; fd00::80-fd00::ff",
	} {
		c := mustParse(t, `{"pool": "p", "mode": "routed", "ranges": [`+ranges+`]}`)
		var texts []string
		for _, r := range c.GatewayRoutes() {
			texts = append(texts, fmt.Sprint(r.Destination, " ", r.Gateway))
		}
		if got := fmt.Sprintf("%s; %s-%s", strings.Join(texts, ", "), c.Ranges[0].Start, c.Ranges[0].End); got != want {
			t.Errorf("%s\n got %s\nwant %s", ranges, got, want)
		}
	}
	if flat := mustParse(t, `{"pool": "p", "ranges": [{"subnet": "10.0.0.0/24"}]}`).GatewayRoutes(); len(flat) > 0 {
		t.Errorf("a flat pool has the routes %v", flat)
	}
}

// TestGatewayRoutesCover: every address is behind one route, whichever the gateway, and those
// around a gateway of IPv6 are behind none.
func TestGatewayRoutesCover(t *testing.T) {
	for _, text := range []string{"10.0.0.0/27", "10.0.0.0/30", "fd00::/122", "fd00::/124", "fd00::/126"} {
		subnet := netip.MustParsePrefix(text)
		for gateway := subnet.Addr().Next(); subnet.Contains(gateway); gateway = gateway.Next() {
			requireCovered(t, &Config{Mode: ModeRouted, Ranges: []Range{{Subnet: subnet, Gateway: gateway}}}, gateway)
		}
	}
}

func requireCovered(t *testing.T, c *Config, gateway netip.Addr) {
	t.Helper()
	around := aroundGateway(c.Subnets()[0], gateway)
	for _, a := range allAddresses(c) {
		routes := 0
		for _, r := range c.GatewayRoutes() {
			if r.Destination.Contains(a) {
				routes++
			}
		}
		want := 1
		if a.Is6() && around.Contains(a) {
			want = 0
		}
		if routes != want {
			t.Errorf("%s with the gateway %s: %d routes to %s, want %d", c.Subnets()[0], gateway, routes, a, want)
		}
	}
}
