// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// changing is held by those who add or remove an attachment, and alone by those who make all anew, as their callers do.
var changing sync.RWMutex

// lazily are rules of which those about each attachment are read by themselves, as a process does that attaches one.
func lazily(all isolation.Rules) filter.Rules {
	encoded, _ := all.AppendBinary(nil) // it does not fail
	r := filter.RulesOf(all)
	r.Sum, r.Some = filter.Sum(encoded), func(isWanted func(from, to *isolation.Selector) bool) (some isolation.Rules, isAll bool, err error) {
		err = some.UnmarshalSome(encoded, isWanted)
		return some, false, err
	}
	return r
}

// admit adds an attachment to those of a state, which may have it.
func admit(t testing.TB, rules isolation.Rules, m filter.Member, state filter.Source) error {
	t.Helper()
	return admitBy(t, lazily(rules), m, state)
}

func admitBy(t testing.TB, rules filter.Rules, m filter.Member, state filter.Source) error {
	t.Helper()
	changing.RLock()
	err := kernel.Add(t.Context(), rules, m)
	changing.RUnlock()
	if err == nil {
		return nil
	}
	changing.Lock()
	defer changing.Unlock()
	return kernel.Complete(t.Context(), rules, m, func() (filter.State, error) {
		s, err := state()
		s.Members = append(slices.DeleteFunc(slices.Clone(s.Members), func(other filter.Member) bool { return other.ID == m.ID }), m)
		return s, err
	})
}

// TestRootAddChangesNothingElse: an attachment that lacks something else than its elements is not added, and changes nothing: what makes the rest is for a caller
// that keeps others from changing records meanwhile.
func TestRootAddChangesNothingElse(t *testing.T) {
	roottest.Require(t)
	state := mixed()
	first := slices.IndexFunc(state.Members, func(m filter.Member) bool { return m.Job == "web" && m.Bridge != "" })
	m := state.Members[first]
	others := filter.State{Rules: state.Rules, Members: slices.Delete(slices.Clone(state.Members), first, first+1)}
	for name, there := range map[string]filter.State{"no tables": {}, "others": others, "other rules": {Members: others.Members}} {
		netnstest.Run(t, func() error {
			addBridges(t, bridgesOf...)
			err := kernel.Apply(t.Context(), source(there))
			before := listTables(t)
			if kernel.Add(t.Context(), lazily(state.Rules), m) == nil {
				t.Errorf("%s: it is added without what it lacks", name)
			}
			if diff := cmp.Diff(before, listTables(t)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			err = errors.Join(err, kernel.Complete(t.Context(), lazily(state.Rules), m, source(state)), kernel.Add(t.Context(), lazily(state.Rules), m))
			requireComplete(t, state)
			return err
		})
	}
}

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
		err := admit(t, all.Rules, added, source(all))
		requireComplete(t, all)
		return err
	}
	remove := func(gone filter.Member, left ...filter.Member) error {
		err := kernel.Remove(t.Context(), lazily(isolation.Rules{}), gone)
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
