// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sysctl_test

import (
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sysctl"
)

func TestPath(t *testing.T) {
	for key, want := range map[string]string{
		"net.ipv4.conf.IFNAME.rp_filter": "net/ipv4/conf/eth0.5/rp_filter",
		"net/ipv4/conf/IFNAME/rp_filter": "net/ipv4/conf/eth0.5/rp_filter",
		"net.core.somaxconn":             "net/core/somaxconn",
		"kernel.domainname":              "",
		"net/../kernel/domainname":       "net/kernel/domainname", // no dots are left
		"net":                            "",
		"network.x":                      "",
	} {
		got, err := sysctl.Path(key, "eth0.5")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", key, got, err, want)
		}
	}
}

// TestRootSets: what the kernel sets with a parameter of all interfaces is what Sets tells of, for every one that an
// interface has, too.
func TestRootSets(t *testing.T) {
	roottest.Require(t)
	n, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	for _, test := range []struct{ path, other string }{
		{"net/ipv4/ip_forward", "net/ipv4/conf/lo/forwarding"},
		{"net/ipv4/ip_forward", "net/ipv4/conf/all/forwarding"},
		{"net/ipv4/conf/all/forwarding", "net/ipv4/ip_forward"},
		{"net/ipv4/conf/all/forwarding", "net/ipv4/conf/default/forwarding"},
		{"net/ipv4/conf/all/forwarding", "net/ipv6/conf/lo/forwarding"},
		{"net/ipv4/conf/lo/forwarding", "net/ipv4/conf/all/forwarding"},
		{"net/ipv4/conf/all/rp_filter", "net/ipv4/conf/lo/rp_filter"},
		{"net/ipv4/conf/default/rp_filter", "net/ipv4/conf/all/rp_filter"},
		{"net/ipv4/conf/all/proxy_arp", "net/ipv4/conf/lo/proxy_arp"},
		{"net/ipv4/conf/all/accept_redirects", "net/ipv4/conf/lo/accept_redirects"},
		{"net/ipv6/conf/all/forwarding", "net/ipv6/conf/lo/forwarding"},
		{"net/ipv6/conf/all/forwarding", "net/ipv6/conf/default/forwarding"},
		{"net/ipv6/conf/all/disable_ipv6", "net/ipv6/conf/lo/disable_ipv6"},
		{"net/ipv6/conf/default/disable_ipv6", "net/ipv6/conf/lo/disable_ipv6"},
		{"net/ipv6/conf/all/addr_gen_mode", "net/ipv6/conf/lo/addr_gen_mode"},
		{"net/ipv6/conf/all/ignore_routes_with_linkdown", "net/ipv6/conf/lo/ignore_routes_with_linkdown"},
		{"net/ipv6/conf/all/accept_ra", "net/ipv6/conf/lo/accept_ra"},
		{"net/ipv6/conf/all/proxy_ndp", "net/ipv6/conf/lo/proxy_ndp"},
		{"net/ipv6/conf/all/disable_policy", "net/ipv6/conf/lo/disable_policy"},
	} {
		err := n.Do(func() error {
			s := &sysctl.Tree{}
			set(t, s, test.path, "0")
			set(t, s, test.other, "0")
			set(t, s, test.path, "1")
			got, err := s.Get(test.other)
			if want := sysctl.Sets(test.path, test.other); (got == "1") != want {
				t.Errorf("%s sets %s: %t, and it is %s", test.path, test.other, want, got)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestInOrder: a sysctl of all interfaces, whose change changes those of each, is set before those of one, and what changes
// most first.
func TestInOrder(t *testing.T) {
	want := []string{"net.ipv4.ip_forward", "net/ipv4/conf/default/rp_filter", "net.ipv4.conf.all.forwarding", "net.ipv4.conf.IFNAME.forwarding", "net.ipv4.icmp_echo_ignore_all"}
	values := map[string]string{}
	for _, key := range want {
		values[key] = "1"
	}
	if got := sysctl.InOrder(values); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
