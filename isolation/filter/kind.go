// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// inetTable is the table that has something for rules.
var inetTable = &netfilter.Table{Family: netfilter.INet, Name: name}

// isFirst tells whether an attachment is the first of its kind, as rules see it: a set or a chain for it is missing.
func isFirst(s *netfilter.Socket, all []placed) (bool, error) {
	var sets, chains []string
	for _, p := range all {
		if p.family == netfilter.INet && isOfKind(p.set) {
			sets = append(sets, p.set)
		}
		if p.Chain != "" {
			chains = append(chains, p.Chain)
		}
	}
	slices.Sort(sets)
	slices.Sort(chains)
	for _, set := range slices.Compact(sets) {
		if has, err := s.HasSet(inetTable, set); err != nil || !has {
			return true, err
		}
	}
	for _, chain := range slices.Compact(chains) {
		if has, err := s.HasChain(inetTable, chain); err != nil || !has {
			return true, err
		}
	}
	return false, nil
}

// isOfKind tells whether a set is not there without attachments that have elements in it: that of a selector, or of a network.
func isOfKind(set string) bool {
	return strings.HasPrefix(set, selectorPrefix) || strings.HasPrefix(set, networkPrefix)
}

// addFirst adds the first attachment of its kind to tables that are complete for the rules: it makes the sets and chains for it, and the lines of other chains
// that look into these sets. Of the state it takes which kinds there are; what others have stays as it is.
func addFirst(s *netfilter.Socket, r *ruleset, m *Member, state Source) error {
	ofBridges, err := bridgeMACs([]Member{*m})
	if err != nil {
		return err
	}
	return s.Change(func(b *netfilter.Batch) error {
		b.GuardAlways()
		there, err := listForm(s, inetTable)
		if err != nil {
			return err
		}
		if there == nil || !hasChain(there, stamp+r.sum) {
			return unix.ENOENT
		}
		wanted, err := state()
		if err != nil {
			return err
		}
		in := inet()
		in.setsOf(there.selectorSets())
		found := in.form(r, wanted.Members)
		r.expect(b)
		if in.leaves(there) {
			return unix.ENOENT
		}
		in.bringForm(b, there)
		in.fill(b, r, found, wanted.Members, there)
		for _, p := range r.elementsOf(m, found.of(r, &m.Member), ofBridges[m.Bridge]) {
			if p.family != netfilter.INet || there.sets[p.set] != nil {
				b.AddElements(&netfilter.Table{Family: p.family, Name: name}, p.set, []netfilter.Element{p.Element})
			}
		}
		return nil
	})
}

// leaves tells whether selectors get their sets while there are chains of kinds that are gone. The next one of such a kind takes its chain as it is, which would be without
// the lines that look into these sets.
func (t *table) leaves(there *listing) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(t.sets)), func(set string) bool {
		return there.sets[set] == nil && strings.HasPrefix(set, selectorPrefix)
	}) && slices.ContainsFunc(slices.Collect(maps.Keys(there.chains)), func(chain string) bool { return t.chains[chain] == nil })
}

// fill fills the sets that were not there.
func (t *table) fill(b *netfilter.Batch, r *ruleset, found kinds, members []Member, there *listing) {
	isNew := func(set string) bool { return there.sets[set] == nil }
	for i := range members {
		m := &members[i]
		k := found.of(r, &m.Member)
		hasNew := m.Level == isolation.Network && isNew(networkSets(m.Network)+"-"+ip4.suffix)
		if !hasNew && !slices.ContainsFunc(k.sets, func(set string) bool { return isNew(set + ip4.suffix) }) {
			continue
		}
		for _, p := range r.elementsOf(m, k, nil) {
			if p.family == netfilter.INet && isNew(p.set) {
				t.put(p.set, p.Element)
			}
		}
	}
	for set, s := range t.sets {
		if isNew(set) {
			t.bringElements(b, s, there)
		}
	}
}
