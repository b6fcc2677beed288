// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"errors"
	"net"
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootLeased: an address by DHCPv6 can be used when ADD ends, also where router advertisements have given it before. One that another
// interface of the link has is an error.
func TestRootLeased(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "peer"}); err != nil {
			return err
		}
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		peer, err := netlink.LinkByName("peer")
		if err != nil {
			return err
		}
		address := func(text string) *netlink.Addr {
			a := network(text)
			return &netlink.Addr{IPNet: &a, Flags: unix.IFA_F_NODAD}
		}
		err = errors.Join(netlink.LinkSetUp(link), netlink.LinkSetUp(peer), netlink.AddrAdd(link, address("2001:db8::5/64")), netlink.AddrAdd(peer, address("2001:db8::6/64")))
		if err != nil {
			return err
		}
		configure := func(text string) error {
			c := &plugin.Call{IfName: "eth0", Config: []byte(`{"ipam": {"type": "dhcp"}}`)}
			return Configure(c, &current.Result{Interfaces: []*current.Interface{{Name: "eth0"}}, IPs: []*current.IPConfig{{Interface: current.Int(0), Address: network(text)}}})
		}
		if err := configure("2001:db8::5/128"); err != nil {
			t.Error(err)
		}
		present, err := links.Addresses(link, netlink.FAMILY_V6)
		if err != nil {
			return err
		}
		for _, a := range present {
			if a.IP.Equal(net.ParseIP("2001:db8::5")) && (a.Flags&unix.IFA_F_TENTATIVE != 0 || a.IPNet.String() != "2001:db8::5/128") {
				t.Errorf("the interface has %s with flags %x", a.IPNet, a.Flags)
			}
		}
		if err := configure("2001:db8::6/128"); err == nil || !strings.Contains(err.Error(), "2001:db8::6 that a DHCPv6 server gives has another interface of the link already") {
			t.Errorf("got %v", err)
		}
		return nil
	})
}
