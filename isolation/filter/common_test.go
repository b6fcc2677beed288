// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// TestRootSameOnTwoBridges: attachments to two bridges that have one MAC and one address of IPv4 keep what both need while one of them is there, and
// one that gets these after both are gone has what it would have without them.
func TestRootSameOnTwoBridges(t *testing.T) {
	roottest.Require(t)
	twins := []filter.Member{member(1, "web", "s", isolation.Strict, "br0"), member(2, "db", "t", isolation.Strict, "br1"), member(3, "db", "o", isolation.None, "br2")}
	for i := range twins {
		twins[i].MAC, twins[i].Addresses[0] = twins[0].MAC, twins[0].Addresses[0]
	}
	other := member(9, "db", "s", isolation.Strict, "br0")
	add := func(members ...filter.Member) error {
		all := filter.State{Members: members}
		added := members[len(members)-1]
		err := kernel.Add(t.Context(), all.Rules, added, source(all))
		requireComplete(t, all)
		return err
	}
	remove := func(gone filter.Member, left ...filter.Member) error {
		err := kernel.Remove(t.Context(), isolation.Rules{}, gone)
		requireComplete(t, filter.State{Members: left})
		return err
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		first, second, third := twins[order[0]], twins[order[1]], twins[order[2]]
		netnstest.Run(t, func() error {
			addBridges(t, bridgesOf...)
			err := errors.Join(
				add(other), add(other, first), add(other, first, second), remove(first, other, second), add(other, second, third), remove(third, other, second),
				remove(second, other), add(other, third))
			before := listTables(t)
			err = errors.Join(err, kernel.Apply(t.Context(), source(filter.State{Members: []filter.Member{other, third}})))
			if diff := cmp.Diff(before, listTables(t)); diff != "" {
				t.Errorf("%v: after others with its MAC and address it lacks, or has too much: %s", order, diff)
			}
			err = errors.Join(err, remove(third, other), remove(other))
			requireNothing(t)
			if owners, failed := filter.Owners(t.Context()); failed != nil || slices.Contains(owners, third.ID) {
				t.Errorf("left is %q, %v", owners, failed)
			}
			return err
		})
	}
}
