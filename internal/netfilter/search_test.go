// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootSearchRules: chains, comments and addresses are found in the table and the chain that they are in.
func TestRootSearchRules(t *testing.T) {
	roottest.Require(t)
	empty, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	of := func(want string) func(string) bool { return func(comment string) bool { return comment == want } }
	a, b, other := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("10.0.0.4")
	searches := map[string]struct {
		search netfilter.RuleSearch
		want   bool
	}{
		"chain without rules":  {netfilter.RuleSearch{Family: "bridge", Table: "nat", Chain: "own"}, true},
		"no such chain":        {netfilter.RuleSearch{Family: "bridge", Table: "nat", Chain: "ow"}, false},
		"no such table":        {netfilter.RuleSearch{Family: "ip6", Table: "nat", Chain: "own", Comment: of("x")}, false},
		"comment":              {netfilter.RuleSearch{Family: "bridge", Table: "nat", Chain: "shared", Comment: of("second")}, true},
		"comment of no rule":   {netfilter.RuleSearch{Family: "bridge", Table: "nat", Chain: "shared", Comment: of("secon")}, false},
		"source":               {netfilter.RuleSearch{Family: "ip", Table: "filter", Chain: "CNI-FORWARD", Address: a}, true},
		"destination":          {netfilter.RuleSearch{Family: "ip", Table: "filter", Chain: "CNI-FORWARD", Address: b}, true},
		"address of no rule":   {netfilter.RuleSearch{Family: "ip", Table: "filter", Chain: "CNI-FORWARD", Address: other}, false},
		"address in a comment": {netfilter.RuleSearch{Family: "ip", Table: "filter", Chain: "FORWARD", Address: a}, false},
	}
	err = empty.Do(func() error {
		sandbox.Run(t, "sh", "-ec", strings.Join([]string{
			"nft add table bridge nat", "nft add chain bridge nat own", "nft add chain bridge nat shared",
			"nft add rule bridge nat shared accept comment first", "nft add rule bridge nat shared accept comment second",
			"iptables-nft -N CNI-FORWARD", "iptables-nft -A CNI-FORWARD -s 10.0.0.2 -j ACCEPT",
			"iptables-nft -A CNI-FORWARD -d 10.0.0.3 -j ACCEPT", "iptables-nft -A FORWARD -m comment --comment 10.0.0.2 -j ACCEPT",
		}, "\n"))
		for name, test := range searches {
			if found, err := netfilter.SearchRules(t.Context(), []netfilter.RuleSearch{test.search}); err != nil || found[0] != test.want {
				t.Errorf("%s: %v, %v, want %t", name, found, err, test.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
