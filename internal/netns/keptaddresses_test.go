// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootKeptAddresses: addresses are listed again after each change, and in another namespace, and else not; so is what could not be
// listed, and what was added while the kernel had no room to tell of it.
func TestRootKeptAddresses(t *testing.T) {
	roottest.Require(t)
	const ofLoopback = 2
	lists, failure := 0, error(nil)
	k := &keptAddresses{list: func() ([]netlink.Addr, error) {
		lists++
		all, err := ofCaller.list()
		return all, errors.Join(failure, err)
	}}
	expect := func(what string, addresses, listed int) {
		t.Helper()
		all, err := k.get()
		if !errors.Is(err, failure) || len(all) != addresses+ofLoopback || lists != listed {
			t.Errorf("%s: %d addresses after %d lists, %v: want %d after %d", what, len(all)-ofLoopback, lists, err, addresses, listed)
		}
	}
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "b0"}}
	address := func(last byte) *netlink.Addr {
		return &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, last), Mask: net.CIDRMask(24, 32)}}
	}
	inNamespace(t, func() error {
		err := netlink.LinkAdd(link)
		expect("none", 0, 1)
		expect("no change", 0, 1)
		err = errors.Join(err, netlink.AddrAdd(link, address(1)))
		expect("added", 1, 2)
		expect("no change", 1, 2)
		err = errors.Join(err, netlink.AddrDel(link, address(1)), netlink.AddrAdd(link, address(2)), netlink.AddrAdd(link, address(3)))
		expect("removed and added", 2, 3)
		failure = unix.EIO
		err = errors.Join(err, netlink.AddrDel(link, address(3)))
		expect("not listed", 1, 4)
		expect("still not listed", 1, 5)
		failure = nil
		expect("listed", 1, 6)
		err = errors.Join(err, unix.SetsockoptInt(k.socket, unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
		for last := byte(100); last < 150; last++ {
			err = errors.Join(err, netlink.AddrAdd(link, address(last)))
		}
		expect("more than it is told of", 51, 7)
		expect("no change", 51, 7)
		return err
	})
	inNamespace(t, func() error {
		expect("another namespace", 0, 8)
		return nil
	})
}

// inNamespace calls a function in a new network namespace.
func inNamespace(t *testing.T, do func() error) {
	t.Helper()
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := n.Do(do); err != nil {
		t.Fatal(err)
	}
}
