// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/route"
)

// TestOwnNetwork: a block does not divert packets to a network that the host has in the pool's subnet, or to one
// for which another program has a route.
func TestOwnNetwork(t *testing.T) {
	hosts := newHosts(t, 2)
	p, a := pool(ipam.ModeRouted), hosts[0]
	namespace(t, "lan")
	ip(t, "-n a link add lan0 type veth peer name eth0 netns lan")
	ip(t, "-n a link set lan0 up")
	spoil(t, a, "route add 10.60.2.0/24 dev lan0")
	address(t, "lan", "eth0", "10.60.2.7/24")
	spoil(t, a, "-6 route add fd60::200/121 via fd31::fe proto static")
	for _, h := range hosts {
		h.device(t, p)
	}
	for _, r := range a.apply(t, p, hosts).Routes {
		if r.State != route.Refused || !strings.Contains(r.Reason, "a part of the network") {
			t.Errorf("%+v", r)
		}
	}
	for address, want := range map[string]string{"10.60.2.7": "dev lan0", "fd60::205": "via fd31::fe"} {
		if got := ip(t, "-n a route get %s", address); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	spoil(t, a, "link del lan0")
	spoil(t, a, "-6 route del fd60::200/121")
	join(t, p, hosts)
	requireTraffic(t, hosts, 1500)
}

// TestHostsInPool: a pool whose subnets have the hosts' own networks gets no routes, so that they are reached as
// before: those on the link, and those behind the default gateway.
func TestHostsInPool(t *testing.T) {
	hosts := newHosts(t, 3)
	p, a, c := pool(ipam.ModeVXLAN), hosts[0], hosts[2]
	reach := func() string { return ip(t, "-n a route get 172.31.0.2") + ip(t, "-n a route get 172.31.1.3") }
	before := reach()
	apply := func(own []netip.Prefix, subnet, block string) route.Report {
		p.Subnets[0] = netip.MustParsePrefix(subnet)
		a.device(t, p)
		var report route.Report
		a.do(t, func() error {
			var err error
			report, err = a.table.Apply(p, own, []route.Target{{Block: netip.MustParsePrefix(block), Node: "c", Endpoint: c.endpoint}})
			if (err != nil) != (subnet == "172.16.0.0/12") {
				t.Error(err)
			}
			return nil
		})
		if now := reach(); now != before {
			t.Errorf("%s: the way to others was %s, and is %s", subnet, before, now)
		}
		return report
	}
	for _, x := range []struct{ subnet, block, reason string }{
		{"172.16.0.0/12", "172.20.0.0/26", "172.31.0.1, at which other hosts reach this one"},
		{"172.31.1.0/24", "172.31.1.0/26", "172.31.1.3 is in the pool"},
	} {
		if r := apply(nil, x.subnet, x.block).Routes[0]; r.State != route.Refused || !strings.Contains(r.Reason, x.reason) {
			t.Errorf("%+v, want %s", r, x.reason)
		}
	}
	p.Subnets[0] = netip.MustParsePrefix("10.60.0.0/16")
	join(t, p, hosts)
	requireTraffic(t, hosts, 1450)
}
