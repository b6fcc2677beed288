// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"errors"
	"slices"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables/expr"

	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// published is a table with a rule for each of some attachments.
var published = &netfilter.Table{Family: netfilter.IPv4, Name: "cni_hostport", Chains: []netfilter.Chain{{Name: "hostports"}}}

// publishing returns what publishes a port of each of some attachments, or removes it.
func publishing(remove bool, ids ...string) (all []*Set) {
	for _, id := range ids {
		all = append(all, &Set{Changes: []Change{{Remove: remove, NFTables: &NFTables{
			Table: published, Chains: []string{"hostports"}, Owns: func(comment string) bool { return comment == id },
			Rules: []netfilter.Rule{{Chain: "hostports", Comment: id, Exprs: netfilter.Verdict(expr.VerdictReturn, "")}},
		}}}})
	}
	return all
}

// TestRootRemovalAfterReload: when all rules are loaded anew between the listing of rules and their
// removal, the handles are those of other attachments. Nothing of these is removed.
func TestRootRemovalAfterReload(t *testing.T) {
	roottest.Require(t)
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	err = within.Namespace(netns, func(ns.NetNS) error { // on one thread: what starts goroutines would change the host
		s, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		if err := errors.Join(commitBatch(s, publishing(false, "zero", "one", "two")), commitBatch(s, publishing(true, "zero"))); err != nil {
			return err
		}
		fills := 0
		err = s.Change(func(b *netfilter.Batch) error {
			err := publishing(true, "one")[0].Changes[0].NFTables.change(b, true)
			if fills++; fills > 1 {
				return err
			}
			sandbox.Run(t, "nft", "flush", "ruleset")
			return errors.Join(err, commitBatch(s, publishing(false, "one", "two")))
		})
		if err != nil || fills != 2 {
			t.Errorf("%v, and the batch is filled %d times: want a second time, as the handles were of before the reload", err, fills)
		}
		listed, err := s.List(published, "hostports")
		var left []string
		for _, rule := range listed {
			left = append(left, rule.Comment())
		}
		if !slices.Equal(left, []string{"two"}) {
			t.Errorf("published are %v, want two", left)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
