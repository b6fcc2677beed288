// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
)

// TestDirectRouteWithAnotherMetric: the metric of the route to an address's network is the operator's, in both families.
func TestDirectRouteWithAnotherMetric(t *testing.T) {
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0", Index: 2}}
	for _, text := range []string{"10.88.0.2/24", "fd00:88::2/64"} {
		ip, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		family := netlink.FAMILY_V6
		if links.IsIPv4(ip) {
			family = netlink.FAMILY_V4
		}
		for _, metric := range []int{0, 50, directMetric, 1024} {
			present := []netlink.Route{{LinkIndex: 2, Table: unix.RT_TABLE_MAIN, Dst: network, Priority: metric, Family: family}}
			r := &remedy.Repair{DryRun: true}
			if err := ensureDirect(r, link, present, net.IPNet{IP: ip, Mask: network.Mask}); err != nil || r.Found() {
				t.Errorf("%s with metric %d: %v, %v", text, metric, r.Missing, err)
			}
		}
		r := &remedy.Repair{DryRun: true}
		if err := ensureDirect(r, link, nil, net.IPNet{IP: ip, Mask: network.Mask}); err != nil || len(r.Missing) != 1 {
			t.Errorf("%s without a route: %v, %v", text, r.Missing, err)
		}
	}
}
