// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sublink

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/roottest"
)

// standIn has a kernel that may lack a kind of link make a macvlan of the same attributes in its place.
func standIn(t *testing.T) {
	t.Helper()
	addLink = func(l netlink.Link) error {
		return netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: *l.Attrs(), Mode: netlink.MACVLAN_MODE_BRIDGE})
	}
	t.Cleanup(func() { addLink = netlink.LinkAdd })
}

// attachment is one of a new namespace, with a master up0 there and on the host.
func attachment(t *testing.T) (*plugin.Call, ns.NetNS) {
	t.Helper()
	namespace, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = namespace.Close() })
	master := func() error {
		up := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "up0", MTU: 1400}}
		return errors.Join(netlink.LinkAdd(up), netlink.LinkSetUp(up))
	}
	if err := errors.Join(master(), within.Namespace(namespace, func(ns.NetNS) error { return master() })); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "up0"}}) })
	return &plugin.Call{
		Ctx: t.Context(), Changes: &plugin.Changes{}, ContainerID: "c", IfName: "net1", Netns: fmt.Sprint("/proc/self/fd/", namespace.Fd()), Version: "1.0.0",
		Config: []byte(`{"cniVersion": "1.0.0", "name": "n", "type": "vlan", "ipam": {"type": "own"}}`),
		IPAM: func(string) (plugin.Type, bool) {
			return plugin.Type{Del: func(*plugin.Call) error { return nil }}, true
		},
	}, namespace
}

// kinds are links that are made on a master.
func kinds(m Master, c *plugin.Call, namespace ns.NetNS) []netlink.Link {
	return []netlink.Link{
		&netlink.Vlan{LinkAttrs: m.Attrs(c, namespace), VlanId: 100}, &netlink.IPVlan{LinkAttrs: m.Attrs(c, namespace)}, &netlink.Macvlan{LinkAttrs: m.Attrs(c, namespace)},
	}
}

// TestRootAdd: the interface is in the namespace under its name, on the master there or on the host, and DEL removes it.
func TestRootAdd(t *testing.T) {
	roottest.Require(t)
	standIn(t)
	for _, m := range []Master{{Link: "up0"}, {Link: "up0", MTU: 1300}, {Link: "up0", LinkInContainer: true}} {
		c, namespace := attachment(t)
		for _, link := range kinds(m, c, namespace) {
			inside, err := m.Add(c, namespace, link)
			if err != nil {
				t.Fatalf("%+v, %s: %v", m, link.Type(), err)
			}
			err = within.Namespace(namespace, func(ns.NetNS) error {
				made, err := netlink.LinkByName("net1")
				if err != nil {
					return err
				}
				a := made.Attrs()
				if inside.Name != "net1" || inside.Mac != a.HardwareAddr.String() || inside.Sandbox != namespace.Path() || (a.NetNsID >= 0) == m.LinkInContainer || m.MTU != 0 && a.MTU != m.MTU {
					t.Errorf("%+v, %s: %+v is %+v", m, link.Type(), inside, a)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			remove(t, c)
		}
		if err := netlink.LinkDel(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "up0"}}); err != nil {
			t.Fatal(err)
		}
		remove(t, c) // also without the master
	}
}

// remove runs DEL, which leaves no link of the attachment.
func remove(t *testing.T, c *plugin.Call) {
	t.Helper()
	c.Changes = &plugin.Changes{}
	if err := errors.Join(Del(c), errors.Join(plugin.Commit(t.Context(), nil, []*plugin.Changes{c.Changes})...)); err != nil {
		t.Fatal(err)
	}
	err := c.InNamespace(func() error {
		left, err := links.Existing([]string{"net1", NewLinkName(c)})
		if len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootAddRefused: what the kernel refuses is an error with its number, and nothing of it is left.
func TestRootAddRefused(t *testing.T) {
	roottest.Require(t)
	standIn(t)
	c, namespace := attachment(t)
	m := Master{Link: "up0"}
	if _, err := (Master{Link: "none0"}).Add(c, namespace, kinds(m, c, namespace)[0]); err == nil {
		t.Error("a missing master is no error")
	}
	taken := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "net1"}}
	if err := within.Namespace(namespace, func(ns.NetNS) error { return netlink.LinkAdd(taken) }); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Add(c, namespace, kinds(m, c, namespace)[0]); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a name that is taken: %v", err)
	}
	addLink = func(netlink.Link) error { return unix.EOPNOTSUPP }
	if _, err := m.Add(c, namespace, kinds(m, c, namespace)[0]); !errors.Is(err, unix.EOPNOTSUPP) || err.Error() != "failed to create vlan: operation not supported" {
		t.Errorf("a kind that the kernel lacks: %v", err)
	}
	err := within.Namespace(namespace, func(ns.NetNS) error {
		left, err := links.Existing([]string{NewLinkName(c)})
		if len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootAllocate: the interface has the addresses of the IPAM plugin, which gets them back if that fails.
func TestRootAllocate(t *testing.T) {
	roottest.Require(t)
	standIn(t)
	c, namespace := attachment(t)
	held := 0
	address := net.IPNet{IP: net.ParseIP("10.5.0.2").To4(), Mask: net.CIDRMask(24, 32)}
	c.IPAM = func(string) (plugin.Type, bool) {
		return plugin.Type{
			Add: func(*plugin.Call) (*current.Result, error) {
				held++
				return &current.Result{CNIVersion: "1.0.0", IPs: []*current.IPConfig{{Address: address}}, DNS: types.DNS{Domain: "x"}}, nil
			},
			Del: func(*plugin.Call) error { held--; return nil },
		}, true
	}
	conf := types.NetConf{}
	conf.IPAM.Type = "own"
	m := Master{Link: "up0"}
	inside, err := m.Add(c, namespace, kinds(m, c, namespace)[0])
	if err != nil {
		t.Fatal(err)
	}
	result := &current.Result{CNIVersion: "1.0.0", Interfaces: []*current.Interface{inside}}
	if err := Allocate(c, namespace, conf, result, Announce); err != nil {
		t.Fatal(err)
	}
	err = c.InNamespace(func() error {
		link, err := netlink.LinkByName("net1")
		if err != nil {
			return err
		}
		present, err := links.Addresses(link, netlink.FAMILY_V4)
		if !links.HasAddress(present, address) || link.Attrs().Flags&net.FlagUp == 0 || *result.IPs[0].Interface != 0 || result.DNS.Domain != "" {
			t.Errorf("it has %v, the result is %+v", present, result)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Allocate(c, namespace, conf, result, nil); err == nil || held != 1 {
		t.Errorf("the address that is there: %v, %d are held, want 1", err, held)
	}
	remove(t, c)
	if held != 0 {
		t.Errorf("%d are held after DEL", held)
	}
}
