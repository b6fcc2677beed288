// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootSourceRoutes: packets from an address use its table. What is missing is told, and
// all of it can be added again and removed again.
func TestRootSourceRoutes(t *testing.T) {
	roottest.Require(t)
	n := openNamespace(t, create(t, "source"))
	for _, args := range []string{
		"link add name na type veth peer name nb", "link set na up", "link set nb up",
		"addr add 10.1.0.2/24 dev na", "addr add 10.2.0.2/24 dev nb", "addr add fd00:2::2/64 dev nb nodad",
		"route add default via 10.1.0.1 dev na", "route add 10.9.0.0/16 via 10.2.0.9 dev nb",
		"rule add from 10.7.0.0/24 lookup 20000 priority 100", "route add blackhole 10.8.0.0/24 table 20001",
	} {
		ip(t, "-n source "+args)
	}
	used, err := n.UsedTables()
	if err != nil || !used[20000] || !used[20001] || !used[100] || !used[254] || used[20002] {
		t.Errorf("used tables %v, %v", used, err)
	}
	routes, err := n.RoutesOf("nb")
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(routes); got != "10.2.0.0/24; fd00:2::/64; 10.9.0.0/16 via 10.2.0.9" {
		t.Errorf("routes of nb: %s", got)
	}
	s := netns.SourceRoutes{Table: 20002, Interface: "nb", Routes: routes}
	for _, gateway := range []string{"10.2.0.1", "fd00:2::1"} {
		address := netip.MustParseAddr(gateway)
		s.Addresses = append(s.Addresses, address.Next())
		s.Routes = append(s.Routes, netns.TableRoute{Destination: netip.PrefixFrom(address, 0).Masked(), Gateway: address})
	}
	for range 2 {
		if err := n.AddSourceRoutes(s); err != nil {
			t.Fatal(err)
		}
	}
	for from, via := range map[string]string{"10.2.0.2": "via 10.2.0.1 dev nb", "10.1.0.2": "via 10.1.0.1 dev na", "fd00:2::2": "via fd00:2::1 dev nb"} {
		to := map[bool]string{false: "192.0.2.1", true: "2001:db8::1"}[strings.Contains(from, ":")]
		if got := sandbox.Run(t, "ip", "-n", "source", "route", "get", to, "from", from); !strings.Contains(got, via) {
			t.Errorf("from %s: %s, want %s", from, got, via)
		}
	}
	requireMissing(t, n, s)
	ip(t, "-n source route del 10.9.0.0/16 table 20002")
	ip(t, "-n source -6 rule del priority 20002")
	requireMissing(t, n, s, "rule from fd00:2::2 to table 20002", "route 10.9.0.0/16 via 10.2.0.9 of table 20002")
	for range 2 {
		if err := n.RemoveSourceRoutes(s); err != nil {
			t.Fatal(err)
		}
	}
	if used, err = n.UsedTables(); err != nil || used[20002] || !used[20000] {
		t.Errorf("used tables after removal %v, %v", used, err)
	}
	if err := n.AddSourceRoutes(s); err != nil {
		t.Fatal(err)
	}
	ip(t, "-n source link del nb")
	requireMissing(t, n, s, "route 10.2.0.0/24 of table 20002", "route fd00:2::/64 of table 20002", "route 10.9.0.0/16 via 10.2.0.9 of table 20002",
		"route 0.0.0.0/0 via 10.2.0.1 of table 20002", "route ::/0 via fd00:2::1 of table 20002")
	if err := n.RemoveSourceRoutes(s); err != nil {
		t.Fatal(err)
	}
	if used, err = n.UsedTables(); err != nil || used[20002] {
		t.Errorf("used tables without the interface %v, %v", used, err)
	}
}

func texts(routes []netns.TableRoute) string {
	var all []string
	for _, r := range routes {
		all = append(all, r.String())
	}
	return strings.Join(all, "; ")
}

func requireMissing(t *testing.T, n *netns.Namespace, s netns.SourceRoutes, want ...string) {
	t.Helper()
	if missing, err := n.MissingSourceRoutes(s); err != nil || !slices.Equal(missing, want) {
		t.Errorf("missing are %q, %v, want %q", missing, err, want)
	}
}
