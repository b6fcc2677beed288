// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"errors"
	"net"
	"os"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootLeased: an address by DHCPv6 can be used when ADD ends, also where router advertisements have given it before. The interface keeps
// it when it is down.
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
		advertised, leased := network("2001:db8::5/64"), network("2001:db8::5/128")
		if err := errors.Join(netlink.LinkSetUp(link), netlink.LinkSetUp(peer), netlink.AddrAdd(link, links.Unsearched(advertised))); err != nil {
			return err
		}
		c := &plugin.Call{IfName: "eth0", Config: []byte(`{"ipam": {"type": "dhcp"}}`)}
		if err := Configure(c, &current.Result{Interfaces: []*current.Interface{{Name: "eth0"}}, IPs: []*current.IPConfig{{Interface: current.Int(0), Address: leased}}}); err != nil {
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
		kept, err := os.ReadFile("/proc/sys/net/ipv6/conf/eth0/keep_addr_on_down")
		if err != nil || string(kept) != "1\n" {
			t.Errorf("it is kept when it is down: %q, %v", kept, err)
		}
		return nil
	})
}
