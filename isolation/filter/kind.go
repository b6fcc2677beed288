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
		there, err := listNames(s, inetTable)
		if err != nil {
			return err
		}
		if !hasChain(there, stamp+r.sum) {
			return unix.ENOENT
		}
		r.expect(b)
		k, t := r.kindOf(&m.Member), newTable(inetTable.Family, "")
		isNew := t.formOf(r, m, k, there)
		if len(isNew) > 0 {
			wanted, err := state()
			if err != nil {
				return err
			}
			found := r.kindsOf(wanted.Members)
			t.fill(found, wanted.Members, isNew)
			t.follow(r, found, k, isNew, there)
			removeGone(b, r, found, there)
		}
		t.bringForm(b, there)
		for _, set := range slices.Sorted(maps.Keys(t.sets)) {
			if there.sets[set] == nil {
				t.bringElements(b, t.sets[set], there)
			}
		}
		for _, p := range elementsOf(m, k, ofBridges[m.Bridge]) {
			if p.family != netfilter.INet || !isNew[p.set] {
				b.AddElements(&netfilter.Table{Family: p.family, Name: name}, p.set, []netfilter.Element{p.Element})
			}
		}
		return nil
	})
}

// formOf makes the sets and chains of the kind of an attachment that are not there, and returns the sets.
func (t *table) formOf(r *ruleset, m *Member, k *kind, there *listing) (isNew map[string]bool) {
	isMissing := func(chain string) bool { return chain != "" && !hasChain(there, chain) }
	for set := range there.sets {
		t.set(netfilter.KeySet{Name: set})
	}
	t.setsOf(k.sets)
	if network := networkSets(m.Network); m.Level == isolation.Network && (isMissing(network) || there.sets[network+"-links"] == nil) {
		t.networkChain(m.Network)
	}
	isNew = map[string]bool{}
	for set := range t.sets {
		if there.sets[set] == nil {
			isNew[set] = true
		}
	}
	if isMissing(narrowClass(narrowedFrom, m.Egress)) {
		t.narrowChain(narrowedFrom, m.Egress, ofDestination)
	}
	if isMissing(narrowClass(narrowedTo, m.Ingress)) {
		t.narrowChain(narrowedTo, m.Ingress, ofSource)
	}
	if isMissing(k.allow.chain) {
		t.allowChain(r, k.allow)
	}
	if isMissing(k.egress.chain) {
		t.egressChain(r, k.egress)
	}
	return isNew
}

// follow makes the lines that are about the new sets of a kind, in the chains that there are of others.
func (t *table) follow(r *ruleset, found kinds, k *kind, isNew map[string]bool, there *listing) {
	var selectors []*isolation.Selector
	for i, set := range k.sets {
		if isNew[set+ip4.suffix] {
			selectors = append(selectors, k.selectors[i])
		}
	}
	if len(selectors) == 0 {
		return
	}
	allow, egress := r.matchedBy(selectors)
	isAbout := func(c class, rules map[int]bool) bool {
		return t.chains[c.chain] == nil && hasChain(there, c.chain) && slices.ContainsFunc(c.rules, func(i int) bool { return rules[i] })
	}
	for _, c := range found.allowClasses(r) {
		if isAbout(c, allow) {
			t.allowChain(r, c)
		}
	}
	for _, c := range found.egressClasses() {
		if isAbout(c, egress) {
			t.egressChain(r, c)
		}
	}
}

// removeGone removes the chains of kinds that are gone. Left as they are, without the lines that are about new sets, the next one of such a kind would take them.
func removeGone(b *netfilter.Batch, r *ruleset, found kinds, there *listing) {
	stays := found.allowClasses(r)
	maps.Copy(stays, found.egressClasses())
	for _, chain := range slices.Sorted(maps.Keys(there.chains)) {
		isOfKind := strings.HasPrefix(chain, allowPrefix) || strings.HasPrefix(chain, egressPrefix)
		if _, ok := stays[chain]; isOfKind && !ok {
			b.FlushChain(inetTable, chain)
			b.DeleteChain(inetTable, chain)
		}
	}
}

// fill puts what attachments have into new sets.
func (t *table) fill(found kinds, members []Member, isNew map[string]bool) {
	for i := range members {
		m := &members[i]
		k := found[keyOf(&m.Member)]
		hasNew := m.Level == isolation.Network && isNew[networkSets(m.Network)+"-"+ip4.suffix]
		if !hasNew && !slices.ContainsFunc(k.sets, func(set string) bool { return isNew[set+ip4.suffix] }) {
			continue
		}
		for _, p := range elementsOf(m, k, nil) {
			if p.family == netfilter.INet && isNew[p.set] {
				t.put(p.set, p.Element)
			}
		}
	}
}
