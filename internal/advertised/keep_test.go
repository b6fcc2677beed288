// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package advertised

import (
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// TestRootKeep: links with routes or addresses from router advertisements go on accepting them, and no others.
func TestRootKeep(t *testing.T) {
	roottest.Require(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := ns.Do(func() error { testKeep(t); return nil }); err != nil {
		t.Fatal(err)
	}
}

func testKeep(t *testing.T) {
	var sysctls sysctl.Tree
	network := func(text string) *net.IPNet {
		ip, n, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return &net.IPNet{IP: ip, Mask: n.Mask}
	}
	for name, test := range map[string]struct {
		accept, want string
		give         func(link netlink.Link) error
	}{
		"route0": {"1", "2", func(l netlink.Link) error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: network("2001:db8:1::/64"), Protocol: unix.RTPROT_RA})
		}},
		"address0": {"1", "2", func(l netlink.Link) error {
			return netlink.AddrAdd(l, &netlink.Addr{IPNet: network("2001:db8:2::2/64"), ValidLft: 1000, PreferedLft: 1000})
		}},
		"static0": {"1", "1", func(l netlink.Link) error {
			return errors.Join(netlink.AddrAdd(l, &netlink.Addr{IPNet: network("2001:db8:3::2/64")}),
				netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: network("2001:db8:4::/64")}))
		}},
		"other0": {"0", "0", func(l netlink.Link) error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: network("2001:db8:5::/64"), Protocol: unix.RTPROT_RA})
		}},
	} {
		link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
		key := "net/ipv6/conf/" + name + "/accept_ra"
		if err := errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link), sysctls.Set(key, test.accept), test.give(link)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 2 {
			if err := Keep(&sysctls); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got, err := sysctls.Get(key); err != nil || got != test.want {
				t.Errorf("%s: accept_ra is %s, %v: want %s", name, got, err, test.want)
			}
		}
	}
}

// TestUplinks: what may lead out of the host goes on with router advertisements; what allocations are on must not.
func TestUplinks(t *testing.T) {
	attrs := func(index int, name string, master, parent int) netlink.LinkAttrs {
		return netlink.LinkAttrs{Index: index, Name: name, MasterIndex: master, ParentIndex: parent}
	}
	lo := attrs(1, "lo", 0, 0)
	lo.Flags = net.FlagLoopback
	links := []netlink.Link{
		&netlink.Device{LinkAttrs: lo},
		&netlink.Device{LinkAttrs: attrs(2, "eth0", 0, 0)},
		&netlink.Device{LinkAttrs: attrs(3, "eth1", 4, 0)},
		&netlink.Bridge{LinkAttrs: attrs(4, "br0", 0, 0)},
		&netlink.Veth{LinkAttrs: attrs(5, "veth0123abcd", 4, 30)},
		&netlink.Bridge{LinkAttrs: attrs(6, "web0", 0, 0)},
		&netlink.Veth{LinkAttrs: attrs(7, "veth0123abce", 6, 31)},
		&netlink.Veth{LinkAttrs: attrs(8, "veth0123abcf", 0, 32)},
		&netlink.Vlan{LinkAttrs: attrs(9, "eth0.7", 0, 2)},
		&netlink.Vlan{LinkAttrs: attrs(10, "web0.7", 0, 6)},
		&netlink.Bond{LinkAttrs: attrs(11, "bond0", 0, 0)},
		&netlink.Veth{LinkAttrs: attrs(12, "uplink", 0, 33)},
		&netlink.Macvlan{LinkAttrs: attrs(13, "lan0", 0, 34)},
		&netlink.Vxlan{LinkAttrs: attrs(14, "vxlan0", 0, 0)},
		&netlink.Tuntap{LinkAttrs: attrs(15, "tap0", 0, 0)},
	}
	want := map[string]bool{"eth0": true, "eth1": true, "br0": true, "eth0.7": true, "bond0": true, "uplink": true, "lan0": true}
	for range 2 {
		got := uplinks(links)
		for _, l := range links {
			if a := l.Attrs(); got[a.Index] != want[a.Name] {
				t.Errorf("%s: %v, want %v", a.Name, got[a.Index], want[a.Name])
			}
		}
		slices.Reverse(links)
	}
}
