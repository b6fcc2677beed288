// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootOneQueue: a pair has one queue at each end, whatever the number of processors.
func TestRootOneQueue(t *testing.T) {
	roottest.Require(t)
	c, result := attach(t)
	requireOne := func(name string) error {
		link, err := netlink.LinkByName(name)
		if err == nil && (link.Attrs().NumTxQueues != 1 || link.Attrs().NumRxQueues != 1) {
			t.Errorf("%s has %d and %d queues", name, link.Attrs().NumTxQueues, link.Attrs().NumRxQueues)
		}
		return err
	}
	if err := requireOne(result.Interfaces[0].Name); err != nil {
		t.Fatal(err)
	}
	inNamespace(t, c, func() error { return requireOne(c.IfName) })
}

// TestRootPairsOfNamespaces: a pair without IPv6 waits for another one of its namespace, and for none of another namespace.
func TestRootPairsOfNamespaces(t *testing.T) {
	roottest.Require(t)
	namespaces := make([]ns.NetNS, 2)
	for i := range namespaces {
		namespace, err := ns.TempNetNS()
		if err != nil {
			t.Fatal(err)
		}
		defer namespace.Close()
		namespaces[i] = namespace
	}
	first, err := lockOf(namespaces[0])
	again, errAgain := lockOf(namespaces[0])
	second, errSecond := lockOf(namespaces[1])
	if err != nil || errAgain != nil || errSecond != nil || first != again || first == second {
		t.Fatalf("%p, %p and %p, %v, %v, %v: want one lock of the first namespace and another one of the second", first, again, second, err, errAgain, errSecond)
	}
	first.Lock()
	defer first.Unlock()
	c := &plugin.Call{IfName: "eth0", Netns: fmt.Sprint("/proc/self/fd/", namespaces[1].Fd()), IPv6Off: true}
	host, _, err := AddVeth(c, namespaces[1], 1500, "", "br0")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(host); err != nil {
		t.Error(err)
	}
}

// TestRootGuardedBeforeUp: the end on the host has the name that is on record, and is guarded before it is up; if that fails it stays down.
func TestRootGuardedBeforeUp(t *testing.T) {
	roottest.Require(t)
	namespace, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	defer namespace.Close()
	for _, want := range []error{nil, errors.New("no table")} {
		guarded := false
		c := &plugin.Call{IfName: "eth0", Netns: namespace.Path(), Isolation: &plugin.Isolation{End: "veth0badcafe", Guard: func(bridge string) error {
			link, err := netlink.LinkByName("veth0badcafe")
			guarded = err == nil && bridge == "br0" && link.Attrs().Flags&net.FlagUp == 0
			return want
		}}}
		_, _, err := AddVeth(c, namespace, 1500, "", "br0")
		if !errors.Is(err, want) || !guarded {
			t.Errorf("%v, want %v; guarded while it is down: %t", err, want, guarded)
		}
		link, err := netlink.LinkByName("veth0badcafe")
		if err != nil {
			t.Fatal(err)
		}
		if isUp := link.Attrs().Flags&net.FlagUp != 0; isUp != (want == nil) {
			t.Errorf("after %v the end is up: %t", want, isUp)
		}
		if err := netlink.LinkDel(link); err != nil {
			t.Fatal(err)
		}
	}
}
