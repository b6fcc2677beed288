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
// that look into these sets. A set that is missing is one that no attachment in the tables has to be in, so the others stay as they are.
func addFirst(s *netfilter.Socket, r *ruleset, m *Member, k *kind) error {
	ofBridges, err := bridgeMACs([]Member{*m})
	if err != nil {
		return err
	}
	return s.Change(func(b *netfilter.Batch) error {
		b.GuardAlways()
		there, err := listNames(s, inetTable)
		if err != nil {
			return err
		}
		if !hasChain(there, stamp+r.sum) {
			return unix.ENOENT
		}
		r.expect(b)
		t := newTable(inetTable.Family, "")
		t.there = there
		t.formOf(r, m, k)
		if about := k.selectorsOf(t.isNew); len(about) > 0 {
			noted, err := s.Elements(inetTable, kindsSet)
			if err == nil {
				err = t.follow(r, about, notesIn(noted))
			}
			if err != nil {
				return err
			}
		}
		t.bringForm(b, there)
		for _, set := range slices.Sorted(maps.Keys(t.sets)) {
			if t.isNew(set) || set == kindsSet {
				b.AddElements(inetTable, set, sorted(t.sets[set].elements))
			}
		}
		for _, p := range elementsOf(m, k, ofBridges[m.Bridge]) {
			b.AddElements(&netfilter.Table{Family: p.family, Name: name}, p.set, []netfilter.Element{p.Element})
		}
		return nil
	})
}

// isNew tells whether a set is not there yet.
func (t *table) isNew(set string) bool { return t.sets[set] != nil && t.there.sets[set] == nil }

// formOf makes the sets and chains of the kind of an attachment that are not there.
func (t *table) formOf(r *ruleset, m *Member, k *kind) {
	isMissing := func(chain string) bool { return chain != "" && !hasChain(t.there, chain) }
	t.set(netfilter.KeySet{Name: kindsSet, Key: linkSet})
	t.setsOf(k.sets)
	if network := networkSets(m.Network); m.Level == isolation.Network && (isMissing(network) || t.there.sets[network+"-links"] == nil) {
		t.networkChain(m.Network)
	}
	if isMissing(narrowClass(narrowedFrom, m.Egress)) {
		t.narrowChain(narrowedFrom, m.Egress, ofDestination)
	}
	if isMissing(narrowClass(narrowedTo, m.Ingress)) {
		t.narrowChain(narrowedTo, m.Ingress, ofSource)
	}
	if isMissing(k.allow.chain) {
		t.allowChain(r, k.allow)
		t.note(k.allow, k.names)
	}
	if isMissing(k.egress.chain) {
		t.egressChain(r, k.egress)
		t.note(k.egress, k.names)
	}
}

// selectorsOf returns those of its selectors whose sets are wanted.
func (k *kind) selectorsOf(isWanted func(set string) bool) (all []*isolation.Selector) {
	for i, set := range k.sets {
		if isWanted(set + ip4.suffix) {
			all = append(all, k.selectors[i])
		}
	}
	return all
}

// follow makes the lines that are about new sets, in the chains that there are of others. What has been noted for a chain has to be of a kind that has it.
func (t *table) follow(r *ruleset, about []*isolation.Selector, noted map[string]*names) error {
	if t.there.lacksNote(noted) {
		return unix.ENOENT
	}
	allow, egress := r.matchedBy(about)
	for _, chain := range slices.Sorted(maps.Keys(noted)) {
		if noted[chain] == nil {
			return unix.ENOENT
		}
		m := noted[chain].member()
		has := func(x *index) func(int) bool { return func(i int) bool { return x.isSelecting(i, &m) } }
		if strings.HasPrefix(chain, allowPrefix) && !slices.ContainsFunc(allow, has(r.to)) || strings.HasPrefix(chain, egressPrefix) && !slices.ContainsFunc(egress, has(r.from)) {
			continue
		}
		switch k := r.kindOf(&m); chain {
		case k.allow.chain:
			t.allowChain(r, k.allow)
		case k.egress.chain:
			t.egressChain(r, k.egress)
		default:
			return unix.ENOENT
		}
	}
	if !slices.ContainsFunc(allow, func(i int) bool { return !r.to.isWanted(&r.Allow[i].To) }) {
		return nil
	}
	for _, c := range r.reached() {
		if slices.ContainsFunc(c.rules, func(i int) bool { return slices.Contains(allow, i) }) {
			t.allowChain(r, c)
		}
	}
	return nil
}
