// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// advertised makes namespaces host and router, and returns the first. Their links are eth0
// and, for the router, r0.
func advertised(t *testing.T) *netns.Namespace {
	t.Helper()
	n := openNamespace(t, create(t, "host"))
	create(t, "router")
	sandbox.Run(t, "ip", "netns", "exec", "router", "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.all.forwarding=1")
	return n
}

// connect makes the link between them.
func connect(t *testing.T) {
	t.Helper()
	ip(t, "link add eth0 netns host type veth peer name r0 netns router")
	ip(t, "-n router link set r0 up")
	ip(t, "-n host link set eth0 up")
	ip(t, "-n host address add fd00:1::5/64 dev eth0 nodad")
}

// advertise sends a prefix that the host has no address of, and one of which it has.
func advertise(t *testing.T) {
	t.Helper()
	for _, prefix := range []string{"fd00:99::", "fd00:1::"} {
		sandbox.AwaitAdvertised(t, netns.DefaultDir+"/router", "r0", netip.MustParseAddr(prefix), netns.DefaultDir+"/host")
	}
}

// requireAdvertised: the interface has what the router advertises, or nothing of it.
func requireAdvertised(t *testing.T, want bool) {
	t.Helper()
	address := sandbox.Run(t, "ip", "-n", "host", "-6", "address")
	routes := sandbox.Run(t, "ip", "-n", "host", "-6", "route")
	if strings.Contains(address, "fd00:99:") != want || strings.Contains(routes, "default via fe80:") != want || strings.Contains(routes, "fd00:99:") != want {
		t.Errorf("advertised are address and default route: want %v\n%s\n%s", want, address, routes)
	}
	if !strings.Contains(address, "fd00:1::5/64") || strings.Count(address, "fd00:1:") > 1 != want || !strings.Contains(routes, "fd00:1::/64 dev eth0") {
		t.Errorf("of the network of the interface, advertised is an address: want %v\n%s\n%s", want, address, routes)
	}
}

// TestRootAcceptRA: an interface ignores router advertisements, and loses what earlier ones
// gave it. It accepts them again.
func TestRootAcceptRA(t *testing.T) {
	roottest.Require(t)
	n := advertised(t)
	connect(t)
	advertise(t)
	requireAdvertised(t, true)
	for range 2 {
		if err := n.SetAcceptRA("eth0", false); err != nil {
			t.Fatal(err)
		}
		requireAdvertised(t, false)
		requireAccepts(t, n, false)
	}
	advertise(t)
	requireAdvertised(t, false)
	if err := n.SetAcceptRA("eth0", true); err != nil {
		t.Fatal(err)
	}
	requireAccepts(t, n, true)
	advertise(t)
	requireAdvertised(t, true)
	if routes, err := n.DefaultRoutes(); err != nil || len(routes) > 0 {
		t.Errorf("default routes %v, %v: those of accepted advertisements do not count", routes, err)
	}
	if err := n.SetDefaultRoute(netip.MustParseAddr("fd00:1::1"), "eth0"); err != nil {
		t.Fatal(err)
	}
	if used := sandbox.Run(t, "ip", "-n", "host", "-6", "route", "get", "2001:db8::1"); !strings.Contains(used, "via fd00:1::1") {
		t.Errorf("the route used is %s, want that of SetDefaultRoute", used)
	}
	if err := n.SetAcceptRA("none0", false); err != nil {
		t.Errorf("without an interface: %v", err)
	}
}

// TestRootRestoreAcceptRA: an interface in use ignores further router advertisements, and keeps what it has.
func TestRootRestoreAcceptRA(t *testing.T) {
	roottest.Require(t)
	n := advertised(t)
	connect(t)
	advertise(t)
	ip(t, "-n host address add fd00:2::5/64 dev eth0 valid_lft 3600 preferred_lft 3600 nodad")
	if err := n.RestoreAcceptRA("eth0", false); err != nil {
		t.Fatal(err)
	}
	requireAccepts(t, n, false)
	requireAdvertised(t, true)
	if address := sandbox.Run(t, "ip", "-n", "host", "-6", "address"); !strings.Contains(address, "fd00:2::5/64") {
		t.Errorf("an address with a lifetime is gone:\n%s", address)
	}
}

// requireAccepts: an interface is set one way and not the other. One that is missing is set either way.
func requireAccepts(t *testing.T, n *netns.Namespace, accept bool) {
	t.Helper()
	for iface, want := range map[string][2]bool{"eth0": {true, false}, "none0": {true, true}} {
		for i, other := range []bool{accept, !accept} {
			if is, err := n.AcceptsRA(iface, other); err != nil || is != want[i] {
				t.Errorf("%s accepts router advertisements as for %v: %v, %v, want %v", iface, other, is, err, want[i])
			}
		}
	}
}

// TestRootNewInterfacesIgnoreRA: there is no instant at which a new interface accepts one.
func TestRootNewInterfacesIgnoreRA(t *testing.T) {
	roottest.Require(t)
	n := advertised(t)
	if err := n.SetAcceptRA(netns.NewInterfaces, false); err != nil {
		t.Fatal(err)
	}
	connect(t)
	advertise(t)
	requireAdvertised(t, false)
}

// TestRootUnwritableAcceptRA: only an interface that is gone needs no parameter; another error is one.
func TestRootUnwritableAcceptRA(t *testing.T) {
	roottest.Require(t)
	n := openNamespace(t, create(t, "host"))
	for _, accept := range []bool{false, true} {
		if err := n.RestoreAcceptRA("no\x00name", accept); !errors.Is(err, unix.EINVAL) {
			t.Errorf("accept is %t: %v", accept, err)
		}
	}
}
