// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package advertised

import (
	"errors"
	"net"
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
	defer sysctls.Close()
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
			if err := keep(&sysctls); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got, err := sysctls.Get(key); err != nil || got != test.want {
				t.Errorf("%s: accept_ra is %s, %v: want %s", name, got, err, test.want)
			}
		}
	}
}
