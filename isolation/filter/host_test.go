// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/isolation/filter"
)

// kernel has the tables of the namespace in which it is called.
var kernel filter.Kernel

// testHost is a host with allocations, each in a namespace of its own.
type testHost struct {
	*netns.Namespace

	// inside are the namespaces of allocations, by the name.
	inside map[string]*netns.Namespace
}

func newHost(t *testing.T) *testHost {
	t.Helper()
	h := &testHost{Namespace: newNamespace(t), inside: map[string]*netns.Namespace{}}
	h.in(t, h.Namespace, func() error {
		for key, value := range map[string]string{
			"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1", "ipv6/conf/default/accept_dad": "0", "ipv4/conf/all/rp_filter": "0",
			"ipv4/conf/default/rp_filter": "0", "ipv4/icmp_ratelimit": "0", "ipv6/icmp/ratelimit": "0",
		} {
			if err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	})
	return h
}

func newNamespace(t testing.TB) *netns.Namespace {
	t.Helper()
	n, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// in does something in a namespace, and fails the test if that fails.
func (h *testHost) in(t testing.TB, n *netns.Namespace, do func() error) {
	t.Helper()
	if err := n.Do(do); err != nil {
		t.Fatal(err)
	}
}

// bridge makes a bridge with gateways, and a MAC that it keeps, as plugins do.
func (h *testHost) bridge(t *testing.T, name string, gateways ...string) {
	t.Helper()
	h.in(t, h.Namespace, func() error {
		run(t, "ip", "link", "add", name, "address", fmt.Sprintf("02:00:00:00:02:%02x", name[len(name)-1]), "type", "bridge")
		run(t, "ip", "link", "set", name, "up")
		for _, gateway := range gateways {
			run(t, "ip", "addr", "add", gateway, "dev", name, "nodad")
		}
		return nil
	})
}

// attach makes the veth pair of an attachment as plugins do, with the guard first and its elements before it is up. The gateways of
// ptp are those of the host's end.
func (h *testHost) attach(t *testing.T, name string, m filter.Member, gateway4, gateway6 netip.Addr, state filter.Source) {
	t.Helper()
	n := newNamespace(t)
	h.inside[name] = n
	h.in(t, n, func() error {
		return errors.Join(os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0), os.WriteFile("/proc/sys/net/ipv4/conf/all/accept_redirects", []byte("1"), 0))
	})
	h.in(t, h.Namespace, func() error {
		if m.Antispoof {
			if err := kernel.Guard(t.Context(), m.ID, m.End, m.Bridge); err != nil {
				return err
			}
		}
		run(t, "ip", "link", "add", m.End, "type", "veth", "peer", "name", "eth0", "address", m.MAC.String(), "netns", n.Handle())
		if m.Bridge != "" {
			run(t, "ip", "link", "set", m.End, "master", m.Bridge)
		}
		run(t, "ip", "link", "set", m.End, "up")
		if m.Bridge == "" {
			for i, gateway := range []netip.Addr{gateway4, gateway6} {
				run(t, "ip", "addr", "add", netip.PrefixFrom(gateway, gateway.BitLen()).String(), "dev", m.End, "nodad")
				run(t, "ip", "route", "add", m.Addresses[i].String(), "dev", m.End)
			}
		}
		rules, err := state()
		return errors.Join(err, admit(t, rules.Rules, m, state))
	})
	h.in(t, n, func() error {
		lengths := []int{24, 64}
		for i, a := range m.Addresses {
			run(t, "ip", "addr", "add", fmt.Sprintf("%s/%d", a, lengths[i]), "dev", "eth0", "nodad")
		}
		run(t, "ip", "link", "set", "eth0", "up")
		for _, gateway := range []netip.Addr{gateway4, gateway6} {
			if m.Bridge == "" {
				run(t, "ip", "route", "del", netip.PrefixFrom(gateway, map[bool]int{true: 24, false: 64}[gateway.Is4()]).Masked().String(), "dev", "eth0")
				run(t, "ip", "route", "add", gateway.String(), "dev", "eth0")
			}
			run(t, "ip", "route", "add", "default", "via", gateway.String(), "dev", "eth0")
		}
		return nil
	})
}
