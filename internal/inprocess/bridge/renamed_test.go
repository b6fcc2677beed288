// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"net"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRenamedBridge: a bridge with the MAC and the gateways on record is the attachment's under any name, and no other.
func TestRenamedBridge(t *testing.T) {
	gateway := net.IPNet{IP: net.IPv4(10, 88, 0, 1), Mask: net.CIDRMask(24, 32)}
	wider := net.IPNet{IP: gateway.IP, Mask: net.CIDRMask(16, 32)}
	attrs := netlink.LinkAttrs{Name: "br-web", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 0x0a}}
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	routed := config{IsGateway: true}
	for name, test := range map[string]struct {
		conf config
		link netlink.Link
		mac  string
		has  []net.IPNet
		want bool
	}{
		"renamed":                         {routed, bridge, "02:00:00:00:00:0A", []net.IPNet{gateway}, true},
		"renamed, with a shorter prefix":  {routed, bridge, "02:00:00:00:00:0a", []net.IPNet{wider}, true},
		"another one without the gateway": {routed, bridge, "02:00:00:00:00:0a", nil, false},
		"another one with the gateway":    {routed, bridge, "02:00:00:00:00:0b", []net.IPNet{gateway}, false},
		"no bridge":                       {routed, &netlink.Vrf{LinkAttrs: attrs}, "02:00:00:00:00:0a", []net.IPNet{gateway}, false},
		"without gateways":                {config{}, bridge, "02:00:00:00:00:0a", nil, true},
		"gateways of a VLAN":              {config{IsGateway: true, VLAN: 7}, bridge, "02:00:00:00:00:0a", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			var present []netlink.Addr
			for _, address := range test.has {
				present = append(present, netlink.Addr{IPNet: &address})
			}
			recorded := &current.Interface{Name: "web0", Mac: test.mac}
			if got := test.conf.isRenamed(test.link, present, recorded, []net.IPNet{gateway}); got != test.want {
				t.Errorf("%t", got)
			}
		})
	}
}

// TestRootAlternativeName: a network may have an alternative name of its bridge, by which the kernel finds it at ADD. A port of
// the bridge is no port of another one then.
func TestRootAlternativeName(t *testing.T) {
	roottest.Require(t)
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Close()
	err = within.Namespace(netns, func(ns.NetNS) error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "web0"}}
		port := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "port"}, PeerName: "peer"}
		for _, do := range []func() error{
			func() error { return netlink.LinkAdd(bridge) },
			func() error { return netlink.LinkAddAltName(bridge, "lan") },
			func() error { return netlink.LinkAdd(port) },
			func() error { return netlink.LinkSetMaster(port, bridge) },
		} {
			if err := do(); err != nil {
				return err
			}
		}
		member, err := netlink.LinkByName("port")
		if err != nil {
			return err
		}
		for _, name := range []string{"web0", "lan"} {
			if conf, err := (&config{Bridge: name}).where(&plugin.Call{}, &current.Result{}, member); err != nil || conf.Bridge != "web0" {
				t.Errorf("%s: %+v, %v, want the bridge web0", name, conf, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
