// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootChainsDuringChanges: a listing of chains that changes interrupt is not taken for the whole.
func TestRootChainsDuringChanges(t *testing.T) {
	roottest.Require(t)
	empty, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	const first, stay = 3000, 3000
	table := &netfilter.Table{Family: netfilter.INet, Name: "many"}
	for i := range first + stay {
		table.Chains = append(table.Chains, netfilter.Chain{Name: fmt.Sprintf("chain%d", i)})
	}
	removed := make(chan error, 1)
	err = empty.Do(func() error {
		reader, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer reader.Close()
		writer, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer writer.Close()
		if err := writer.Change(func(b *netfilter.Batch) error { b.ReplaceTable(table, false); return nil }); err != nil {
			return err
		}
		go func() { removed <- removeChains(writer, table, first) }()
		for {
			chains, err := reader.Chains(table)
			for _, chain := range table.Chains[first:] {
				if err == nil && !slices.Contains(chains, chain.Name) {
					t.Errorf("%d chains without %s, which is there all the time", len(chains), chain.Name)
					break
				}
			}
			select {
			case err := <-removed:
				return err
			default:
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// removeChains deletes so many chains of a table, one after another: the kernel goes on with a listing by position.
func removeChains(s *netfilter.Socket, t *netfilter.Table, count int) error {
	for _, chain := range t.Chains[:count] {
		if err := s.Change(func(b *netfilter.Batch) error { b.DeleteChain(t, chain.Name); return nil }); err != nil {
			return err
		}
	}
	return nil
}
