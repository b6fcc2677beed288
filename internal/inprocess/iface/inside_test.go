// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/roottest"
)

func network(address string) net.IPNet {
	ip, network, _ := net.ParseCIDR(address)
	return net.IPNet{IP: ip, Mask: network.Mask}
}

// attach makes the interface of an attachment in a namespace of its own, with the first two addresses of three in the result.
func attach(t *testing.T) (*plugin.Call, *current.Result) {
	t.Helper()
	namespace, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = namespace.Close() })
	c := &plugin.Call{IfName: "eth0", Netns: fmt.Sprint("/proc/self/fd/", namespace.Fd()), Repair: &remedy.Repair{}, Changes: &plugin.Changes{}}
	host, inside, err := AddVeth(c, namespace, 1500, "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(host) })
	result := &current.Result{CNIVersion: "1.0.0", Interfaces: []*current.Interface{links.Interface(host, ""), links.Interface(inside, c.Netns)}}
	for _, address := range []string{"10.91.0.2/24", "10.92.0.2/24", "10.93.0.2/24"} {
		result.IPs = append(result.IPs, &current.IPConfig{Interface: current.Int(1), Address: network(address)})
	}
	inNamespace(t, c, func() error {
		one, two := result.IPs[0].Address, result.IPs[1].Address
		return errors.Join(netlink.LinkSetUp(inside), netlink.AddrAdd(inside, &netlink.Addr{IPNet: &one}), netlink.AddrAdd(inside, &netlink.Addr{IPNet: &two}))
	})
	return c, result
}

func inNamespace(t *testing.T, c *plugin.Call, do func() error) {
	t.Helper()
	if err := within.Path(c.Netns, func(ns.NetNS) error { return do() }); err != nil {
		t.Fatal(err)
	}
}

// TestRootHostEndIsFound: by its name, or as what leads to the interface.
func TestRootHostEndIsFound(t *testing.T) {
	roottest.Require(t)
	c, result := attach(t)
	requireFound := func(name string) {
		t.Helper()
		if found, err := HostEnd(c, result); err != nil || found == nil || found.Attrs().Name != name {
			t.Errorf("found %v, %v, want %s", found, err, name)
		}
	}
	requireFound(result.Interfaces[0].Name)
	link, err := netlink.LinkByName(result.Interfaces[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, "web0")); err != nil {
		t.Fatal(err)
	}
	requireFound("web0")
	inNamespace(t, c, func() error { return netlink.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}}) })
	if found, err := HostEnd(c, result); found != nil || err != nil || len(c.Repair.Unrepairable) != 1 {
		t.Errorf("of no pair, %v is found, %v; gone: %q", found, err, c.Repair.Unrepairable)
	}
}

// TestResultWithoutHostEnd: a result that a plugin between has changed is refused.
func TestResultWithoutHostEnd(t *testing.T) {
	inside, outside, other := &current.Interface{Name: "eth0", Sandbox: "/n"}, &current.Interface{Name: "eth0"}, &current.Interface{Name: "eth1", Sandbox: "/n"}
	for _, interfaces := range [][]*current.Interface{nil, {outside}, {inside}, {other, inside}} {
		if found, err := HostEnd(&plugin.Call{IfName: "eth0"}, &current.Result{Interfaces: interfaces}); err == nil || !strings.Contains(err.Error(), "no host's end of interface eth0") {
			t.Errorf("%d interfaces: found %v, %v", len(interfaces), found, err)
		}
	}
}

// TestRootRemovedAddresses are all that rules may have been made for: those of the result and those that the link has.
func TestRootRemovedAddresses(t *testing.T) {
	roottest.Require(t)
	c, _ := attach(t)
	c.Config = []byte(`{"cniVersion": "1.0.0", "name": "n", "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.91.0.2/24"}, {"address": "10.94.0.2/24"}]}}`)
	c.Version = "1.0.0"
	addresses, err := Remove(c)
	var got []string
	for _, address := range addresses {
		got = append(got, address.String())
	}
	if want := []string{"10.91.0.2/24", "10.94.0.2/24", "10.92.0.2/24"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the addresses are %q, %v, want %q", got, err, want)
	}
	if err := errors.Join(plugin.Commit(t.Context(), nil, []*plugin.Changes{c.Changes})...); err != nil {
		t.Fatal(err)
	}
	inNamespace(t, c, func() error {
		if link, err := links.Find("eth0"); link != nil || err != nil {
			t.Errorf("eth0 is left: %v, %v", link, err)
		}
		return nil
	})
}

// TestRootRepairInside: what is missing is made, unless the interface is gone or a task has moved what it had to another one.
func TestRootRepairInside(t *testing.T) {
	roottest.Require(t)
	for name, test := range map[string]struct {
		damage             func(c *plugin.Call, result *current.Result, link netlink.Link) error
		kind, refused      string
		missing, addresses int
		isGone             bool
	}{
		"an address is missing": {missing: 1, addresses: 3},
		"and a route": {damage: func(_ *plugin.Call, _ *current.Result, link netlink.Link) error {
			to := network("10.91.0.0/24")
			return netlink.RouteDel(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: &to, Scope: netlink.SCOPE_LINK})
		}, missing: 2, addresses: 3},
		"the interface": {damage: func(_ *plugin.Call, _ *current.Result, link netlink.Link) error { return netlink.LinkDel(link) }, isGone: true},
		"an address that the kernel refuses": {damage: func(_ *plugin.Call, result *current.Result, _ netlink.Link) error {
			result.IPs[2].Address = network("ff02::5/64")
			return nil
		}, missing: 1, refused: "address ff02::5/64 of eth0", addresses: 2},
		"another kind": {kind: "macvlan", isGone: true, addresses: 2},
		"the MAC is of another": {damage: func(_ *plugin.Call, result *current.Result, link netlink.Link) error {
			other, _ := net.ParseMAC(result.Interfaces[1].Mac)
			own := slices.Clone(other)
			own[5]++
			return errors.Join(netlink.LinkSetHardwareAddr(link, own), netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0", HardwareAddr: other}}))
		}, refused: "br0 has the MAC of eth0", addresses: 2},
		"the address is of another": {damage: func(_ *plugin.Call, result *current.Result, _ netlink.Link) error {
			bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
			return errors.Join(netlink.LinkAdd(bridge), netlink.AddrAdd(bridge, &netlink.Addr{IPNet: &result.IPs[2].Address}))
		}, refused: "br0 has the address 10.93.0.2 of eth0", addresses: 2},
	} {
		t.Run(name, func(t *testing.T) {
			c, result := attach(t)
			inNamespace(t, c, func() error {
				link, err := netlink.LinkByName("eth0")
				if err == nil && test.damage != nil {
					err = test.damage(c, result, link)
				}
				return err
			})
			how := How{Kind: "veth", Direct: true}
			if test.kind != "" {
				how.Kind = test.kind
			}
			err := Repair(c, result, how)
			if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Errorf("the error is %v, want %q", err, test.refused)
			}
			if r := c.Repair; len(r.Missing) != test.missing || (len(r.Unrepairable) > 0) != test.isGone {
				t.Errorf("missing are %q, gone %q", r.Missing, r.Unrepairable)
			}
			if test.addresses == 0 {
				return
			}
			inNamespace(t, c, func() error {
				link, err := netlink.LinkByName("eth0")
				if err != nil {
					return err
				}
				present, err := links.Addresses(link, netlink.FAMILY_V4)
				routes, errRoutes := links.RoutesOf(link, unix.RT_TABLE_MAIN)
				routes = slices.DeleteFunc(routes, func(route netlink.Route) bool { return route.Family == netlink.FAMILY_V6 })
				if len(present) != test.addresses || len(routes) != test.addresses {
					t.Errorf("it has the addresses %v and the routes %v", present, routes)
				}
				return errors.Join(err, errRoutes)
			})
		})
	}
}

// TestRootSourceOfARoute: the kernel takes no second IPv6 route to a destination, so one without its source is replaced.
func TestRootSourceOfARoute(t *testing.T) {
	roottest.Require(t)
	c, _ := attach(t)
	inNamespace(t, c, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		own, to, far := network("fd91::2/64"), network("fd92::/64"), network("fd93::/64")
		if err := netlink.AddrAdd(link, links.Unsearched(own)); err != nil {
			return err
		}
		wanted := netlink.Route{LinkIndex: link.Attrs().Index, Dst: &to, Src: own.IP}
		bare := wanted
		bare.Src = nil
		if err := errors.Join(netlink.RouteAdd(&bare), EnsureRoute(c.Repair, link, []netlink.Route{bare}, wanted)); err != nil {
			return err
		}
		if present, err := links.RoutesOf(link, unix.RT_TABLE_MAIN); err != nil || !links.HasRoute(present, wanted) {
			t.Errorf("the routes are %v, %v, want %v", present, err, wanted)
		}
		wanted.Dst, wanted.Src = &far, net.ParseIP("fd94::2")
		if err := EnsureRoute(c.Repair, link, nil, wanted); !errors.Is(err, unix.EINVAL) {
			t.Error("a route with the source of another host is no error")
		}
		return nil
	})
}

// TestRootRemovedWithoutTheInterface: DEL of an interface that is gone succeeds, unless there is no telling that it is.
func TestRootRemovedWithoutTheInterface(t *testing.T) {
	roottest.Require(t)
	c, result := attach(t)
	c.Version = "1.0.0"
	inNamespace(t, c, func() error { return netlink.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}}) })
	c.Config = fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": %q, "mac": %q}]}}`, c.Netns, result.Interfaces[1].Mac)
	inNamespace(t, c, func() error { // which a task has made
		bridge, address := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}, network("10.95.0.2/24")
		return errors.Join(netlink.LinkAdd(bridge), netlink.AddrAdd(bridge, &netlink.Addr{IPNet: &address}))
	})
	for _, config := range []string{string(c.Config), `{"cniVersion": "1.0.0", "name": "n"}`, `{"prevResult": 5}`} {
		c.Config = []byte(config)
		if addresses, err := Remove(c); len(addresses) > 0 || err != nil {
			t.Errorf("DEL without the interface, %s: %v, %v", config, addresses, err)
		}
	}
	c.Netns = "/dev/null"
	if _, err := Remove(c); err == nil {
		t.Error("DEL in what is no namespace succeeds")
	}
}
