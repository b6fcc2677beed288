// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/roottest"
)

// onBridge runs a test beside a bridge and a link that is not a port of it yet.
func onBridge(t *testing.T, do func(bridge *netlink.Bridge, port netlink.Link) error) {
	t.Helper()
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Close()
	err = within.Namespace(netns, func(ns.NetNS) error {
		err := errors.Join(
			netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0", MTU: 1500}}),
			netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "port"}, PeerName: "peer"}))
		if err != nil {
			return err
		}
		bridge, err := bridgeByName("br0")
		if err != nil {
			return err
		}
		port, err := netlink.LinkByName("port")
		if err != nil {
			return err
		}
		return do(bridge, port)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootPort: a link becomes a port with the settings of the configuration, and a repair makes those that it lacks.
func TestRootPort(t *testing.T) {
	roottest.Require(t)
	for name, conf := range map[string]*config{"plain": {}, "hairpin": {HairpinMode: true}, "isolated": {PortIsolation: true}} {
		t.Run(name, func(t *testing.T) {
			onBridge(t, func(bridge *netlink.Bridge, port netlink.Link) error {
				require := func(when string) {
					t.Helper()
					settings, err := netlink.LinkGetProtinfo(port)
					if err != nil || settings.Hairpin != conf.HairpinMode || settings.Isolated != conf.PortIsolation {
						t.Errorf("%s: the settings are %+v, %v", when, settings, err)
					}
				}
				if err := conf.connect(bridge, port, 0, nil); err != nil {
					return err
				}
				require("ADD")
				r := &remedy.Repair{}
				member, err := netlink.LinkByName("port")
				if err != nil {
					return err
				}
				if err := conf.repairPort(r, bridge, member, 0, nil); err != nil || len(r.Missing) > 0 {
					t.Errorf("a repair of nothing: %v, %q", err, r.Missing)
				}
				if err := errors.Join(netlink.LinkSetHairpin(port, !conf.HairpinMode), netlink.LinkSetIsolated(port, !conf.PortIsolation)); err != nil {
					return err
				}
				if err := conf.repairPort(r, bridge, member, 0, nil); err != nil || len(r.Missing) != 2 {
					t.Errorf("a repair of both settings: %v, %q", err, r.Missing)
				}
				require("a repair")
				return nil
			})
		})
	}
}

// TestRootSettingsOf: who asks for one port does not read all others.
func TestRootSettingsOf(t *testing.T) {
	roottest.Require(t)
	onBridge(t, func(bridge *netlink.Bridge, port netlink.Link) error {
		if got, err := settingsOf(port); err == nil {
			t.Errorf("of no port: %+v", got)
		}
		if err := (&config{HairpinMode: true}).connect(bridge, port, 0, nil); err != nil {
			return err
		}
		reads := func() float64 {
			return testing.AllocsPerRun(10, func() {
				if got, err := settingsOf(port); err != nil || got != (settings{hairpin: true}) {
					t.Errorf("%+v, %v", got, err)
				}
			})
		}
		before := reads()
		for i := range 20 {
			other := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("other%d", i), MasterIndex: bridge.Index}, PeerName: fmt.Sprintf("end%d", i)}
			if err := netlink.LinkAdd(other); err != nil {
				return err
			}
		}
		if now := reads(); now > before+10 {
			t.Errorf("%.0f allocations beside 20 other ports, and %.0f without", now, before)
		}
		err := netlink.LinkDel(port)
		if got, failed := settingsOf(port); !errors.Is(failed, unix.ENODEV) {
			t.Errorf("of a port that is gone: %+v, %v", got, failed)
		}
		return err
	})
}

// TestRootRefusedVLAN: what the kernel refuses is an error.
func TestRootRefusedVLAN(t *testing.T) {
	roottest.Require(t)
	onBridge(t, func(_ *netlink.Bridge, port netlink.Link) error {
		for vlan, trunk := range map[int][]uint16{7: nil, 0: {8}} {
			if err := setVLANs(port, vlan, trunk, true); err == nil {
				t.Errorf("VLAN %d, trunk %d: a link that is no port has it", vlan, trunk)
			}
		}
		return nil
	})
}

// TestRootWithoutAddresses: an interface of a network without IPAM is up, unless it is to be off.
func TestRootWithoutAddresses(t *testing.T) {
	roottest.Require(t)
	for _, off := range []bool{false, true} {
		netns, err := ns.TempNetNS()
		if err != nil {
			t.Fatal(err)
		}
		defer netns.Close()
		add := func(ns.NetNS) error {
			return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}})
		}
		conf := &config{DisableInterface: off}
		if err := errors.Join(within.Namespace(netns, add), conf.setUpWithoutAddresses(&plugin.Call{IfName: "eth0"}, netns)); err != nil {
			t.Fatal(err)
		}
		err = within.Namespace(netns, func(ns.NetNS) error {
			link, err := netlink.LinkByName("eth0")
			if err == nil && (link.Attrs().Flags&net.FlagUp != 0) == off {
				t.Errorf("off %t: %s", off, link.Attrs().Flags)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := conf.setUpWithoutAddresses(&plugin.Call{IfName: "missing0"}, netns); (err == nil) != off {
			t.Errorf("off %t, of a link that is gone: %v", off, err)
		}
	}
}
