// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter_test

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootHasLegacy: chains and rules of iptables-legacy are found in the table and the chain that they are in.
func TestRootHasLegacy(t *testing.T) {
	roottest.Require(t)
	t.Setenv("XTABLES_LOCKFILE", t.TempDir()+"/lock")
	t.Cleanup(func() { sandbox.FlushLegacy(t) })
	for _, f := range []struct {
		program               string
		family                netfilter.Family
		a, b, another, subnet string
	}{
		{"iptables-legacy", netfilter.IPv4, "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.0/24"},
		{"ip6tables-legacy", netfilter.IPv6, "fd00::2", "fd00::3", "fd00::4", "fd00::/64"},
	} {
		for _, args := range []string{
			"-N CNI-FORWARD", "-N CNI-EMPTY", "-A CNI-FORWARD -s " + f.subnet + " -j DROP", "-A CNI-FORWARD -s " + f.a + " -j ACCEPT",
			"-A CNI-FORWARD -d " + f.b + " -m comment --comment CNI-NONE -j ACCEPT", "-A FORWARD -s " + f.another + " -j CNI-FORWARD",
		} {
			if out, err := exec.CommandContext(t.Context(), f.program, append([]string{"-t", "filter"}, strings.Fields(args)...)...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v, %s", args, err, out)
			}
		}
		for _, test := range []struct {
			table, chain, address string
			want                  bool
		}{
			{"filter", "CNI-FORWARD", "", true},
			{"filter", "CNI-EMPTY", "", true},
			{"filter", "CNI-NONE", "", false},
			{"nat", "CNI-FORWARD", "", false},
			{"filter", "CNI-FORWARD", f.a, true},
			{"filter", "CNI-FORWARD", f.b, true},
			{"filter", "CNI-FORWARD", f.another, false},
			{"filter", "CNI-EMPTY", f.a, false},
			{"filter", "CNI-FORWARD", strings.Split(f.subnet, "/")[0], false},
		} {
			var address netip.Addr
			if test.address != "" {
				address = netip.MustParseAddr(test.address)
			}
			if got, err := netfilter.HasLegacy(f.family, test.table, test.chain, address); got != test.want || err != nil {
				t.Errorf("%s: %+v: %t, %v", f.program, test, got, err)
			}
		}
	}
}
