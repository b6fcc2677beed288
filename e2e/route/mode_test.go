// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/netns"
)

// TestModes: allocations reach each other with packets of the whole MTU, by IPv4 and IPv6, over IPv4
// and over IPv6, and nothing is left.
func TestModes(t *testing.T) {
	for _, test := range []struct {
		name   string
		mode   ipam.Mode
		hosts  int
		device string // on a, to the last host
	}{
		{"routed", ipam.ModeRouted, 2, "eth0"},
		{"vxlan", ipam.ModeVXLAN, 3, "vx-net"},
		{"auto", ipam.ModeAuto, 3, "vx-net"},
	} {
		if testing.Short() && test.mode != ipam.ModeAuto { // which has routes of both kinds; other tests have each
			continue
		}
		for _, underlay := range []string{"IPv4", "IPv6"} {
			t.Run(test.name+" over "+underlay, func(t *testing.T) {
				hosts := newHosts(t, test.hosts)
				if underlay == "IPv6" {
					for i, address := range []string{"fd31::1", "fd31::2", "fd31:1::3"}[:test.hosts] {
						hosts[i].endpoint = ipam.Endpoint{Address: netip.MustParseAddr(address)}
					}
				}
				before, p := states(t, hosts), pool(test.mode)
				join(t, p, hosts)
				report := hosts[0].apply(t, p, hosts)
				for _, r := range report.Routes {
					if r.State != route.Installed || r.Node == "b" && test.mode == ipam.ModeAuto && r.Device != "eth0" || r.Node == hosts[len(hosts)-1].name && r.Device != test.device {
						t.Errorf("%+v", r)
					}
				}
				requireTraffic(t, hosts, hosts[0].device(t, p))
				if link := ip(t, "-n %s -o link show dev %s", hosts[0].name, test.device); test.device == "vx-net" && !strings.Contains(link, fmt.Sprintf(" group %d ", netns.LinkGroup)) {
					t.Errorf("network managers do not know the device of allocnet: %s", link)
				}
				leave(t, hosts, before)
			})
		}
	}
}

// TestTunnel: a host behind a tunnel is not on the link: the mode auto uses VXLAN.
func TestTunnel(t *testing.T) {
	hosts := newHosts(t, 2)
	p, a := pool(ipam.ModeAuto), hosts[0]
	spoil(t, a, "tuntap add tun0 mode tun")
	spoil(t, a, "link set tun0 up")
	spoil(t, a, "route add 198.51.100.0/24 dev tun0")
	hosts[1].endpoint.Address = netip.MustParseAddr("198.51.100.2")
	spoil(t, hosts[1], "address add 198.51.100.2/32 dev lo")
	a.device(t, p)
	hosts[1].device(t, p)
	for _, r := range a.apply(t, p, hosts).Routes {
		if r.State != route.Installed || r.Mode != ipam.ModeVXLAN {
			t.Errorf("%+v", r)
		}
	}
}

// TestBehindRouter: without VXLAN, a host behind a router is refused.
func TestBehindRouter(t *testing.T) {
	hosts := newHosts(t, 3)
	p := pool(ipam.ModeRouted)
	join(t, p, hosts)
	for _, r := range hosts[0].apply(t, p, hosts).Routes {
		if refused := r.Node == "c"; (r.State == route.Refused) != refused || refused && !strings.Contains(r.Reason, "172.31.0.254: use the mode vxlan or auto") {
			t.Errorf("%+v", r)
		}
	}
	requireTraffic(t, hosts[:2], 1500)
	for _, a := range hosts[2].addresses {
		if err := send(hosts[0], a, 100); !errors.Is(err, unix.EHOSTUNREACH) && !errors.Is(err, unix.ENETUNREACH) {
			t.Errorf("the packet to a block without a route: %v", err)
		}
	}
}
