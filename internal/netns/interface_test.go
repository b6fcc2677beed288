// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestOwnInterfaces: they are those of this process, in the order of their names.
func TestOwnInterfaces(t *testing.T) {
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, l := range links {
		want = append(want, l.Name)
	}
	slices.Sort(want)
	own, err := netns.OwnInterfaces()
	for _, i := range own {
		got = append(got, i.Name)
	}
	if err != nil || !slices.Equal(got, want) || !slices.Contains(got, "lo") {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// TestRootOwnAddressed: a link without an address, as the port of a bridge, is none of them, nor one with an address without a subnet,
// as the end of ptp; one that is down is.
func TestRootOwnAddressed(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		for name, texts := range map[string][]string{"port1": nil, "ptp1": {"10.0.0.2/32"}, "side1": {"fd00::1/64", "10.0.0.1/24"}} {
			link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
			err := netlink.LinkAdd(link)
			for _, text := range texts {
				address, failed := netlink.ParseAddr(text)
				if err = errors.Join(err, failed); err == nil {
					err = netlink.AddrAdd(link, address)
				}
			}
			if err != nil {
				return err
			}
		}
		own, err := netns.OwnAddressed()
		if err != nil {
			return err
		}
		if len(own) != 1 || own[0].Name != "side1" || own[0].Up || fmt.Sprint(own[0].Addresses) != "[10.0.0.1/24 fd00::1/64]" {
			t.Errorf("%+v", own)
		}
		return nil
	})
}

// TestRootMayHold: an address of a link is found, also before duplicate address detection has ended, and on one that is down.
func TestRootMayHold(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "side1"}}); err != nil {
			return err
		}
		side, err := netlink.LinkByName("side1")
		if err != nil {
			return err
		}
		for _, up := range []bool{false, true} {
			if up {
				err = netlink.LinkSetUp(side)
			}
			for _, text := range []string{"10.0.0.1/24", "fd00::1/64"} {
				prefix := netip.MustParsePrefix(text)
				a, parsed := netlink.ParseAddr(text)
				err = errors.Join(err, parsed)
				had := netns.MayHold(prefix.Addr())
				err = errors.Join(err, netlink.AddrAdd(side, a))
				has, other := netns.MayHold(prefix.Addr()), netns.MayHold(prefix.Addr().Next())
				err = errors.Join(err, netlink.AddrDel(side, a))
				if left := netns.MayHold(prefix.Addr()); had || !has || other || left {
					t.Errorf("%s, up %v: before %v, now %v, the next one %v, afterwards %v", text, up, had, has, other, left)
				}
			}
		}
		return err
	})
}
