// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"slices"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// publishing returns what publishes a port of each of some attachments, or removes it.
func publishing(t *testing.T, remove bool, ids ...string) (all []*ruleSet) {
	t.Helper()
	for _, id := range ids {
		conf := &portmapConfig{network: "n", containerID: id}
		conf.RuntimeConfig.PortMappings = []portMapping{{8080, 80, "tcp", ""}}
		r, err := conf.nftables(address(t, "10.0.0.5/24"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &ruleSet{rules: []rules{{remove: remove, nftables: r}}})
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
		if err := errors.Join(commitBatch(s, publishing(t, false, "zero", "one", "two")), commitBatch(s, publishing(t, true, "zero"))); err != nil {
			return err
		}
		fills := 0
		err = s.Change(func(b *netfilter.Batch) error {
			err := publishing(t, true, "one")[0].rules[0].nftables.change(b, true)
			if fills++; fills > 1 {
				return err
			}
			sandbox.Run(t, "nft", "flush", "ruleset")
			return errors.Join(err, commitBatch(s, publishing(t, false, "one", "two")))
		})
		if err != nil || fills != 2 {
			t.Errorf("%v, and the batch is filled %d times: want a second time, as the handles were of before the reload", err, fills)
		}
		listed, err := s.List(publishing(t, true, "one")[0].rules[0].nftables.table, publishedChain)
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
