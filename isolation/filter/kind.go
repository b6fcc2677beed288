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
		if p.family == netfilter.INet && p.Chain != "" {
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
		d := between(newTable(inetTable.Family, ""), there)
		d.there = there
		d.formOf(r, m, k)
		if about := k.selectorsOf(d.isNew); len(about) > 0 {
			noted, err := s.Elements(inetTable, kindsSet)
			if err == nil {
				err = d.follow(r, about, notesIn(noted))
			}
			if err != nil {
				return err
			}
		}
		d.bringForm(b)
		for _, set := range slices.Sorted(maps.Keys(d.table.sets)) {
			if d.isNew(set) || set == kindsSet {
				b.AddElements(inetTable, set, sorted(d.table.sets[set].elements))
			}
		}
		for _, p := range elementsOf(m, k, ofBridges[m.Bridge]) {
			b.AddElements(&netfilter.Table{Family: p.family, Name: name}, p.set, []netfilter.Element{p.Element})
		}
		return nil
	})
}

// isNew tells whether a set is not there yet.
func (d difference) isNew(set string) bool {
	return d.table.sets[set] != nil && d.listing.sets[set] == nil
}

// formOf makes the sets and chains of the kind of an attachment that are not there.
func (d difference) formOf(r *ruleset, m *Member, k *kind) {
	isMissing := func(chain string) bool { return chain != "" && !hasChain(d.listing, chain) }
	d.set(netfilter.KeySet{Name: kindsSet, Key: linkSet})
	d.setsOf(k.sets)
	if network := networkSets(m.Network); m.Level == isolation.Network && (isMissing(network) || d.listing.sets[network+"-links"] == nil) {
		d.networkChain(m.Network)
	}
	if isMissing(narrowClass(narrowedFrom, m.Egress)) {
		d.narrowChain(narrowedFrom, m.Egress, ofDestination)
	}
	if isMissing(narrowClass(narrowedTo, m.Ingress)) {
		d.narrowChain(narrowedTo, m.Ingress, ofSource)
	}
	if isMissing(k.allow.chain) {
		d.allowChain(r, k.allow)
		d.note(k.allow, k.names)
	}
	if isMissing(k.egress.chain) {
		d.egressChain(r, k.egress)
		d.note(k.egress, k.names)
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
func (d difference) follow(r *ruleset, about []*isolation.Selector, noted map[string]*names) error {
	if d.lacksNote(noted) {
		return unix.ENOENT
	}
	allow, egress := r.matchedBy(about)
	isOfOthers := slices.ContainsFunc(allow, func(i int) bool { return !r.to.isWanted(&r.Allow[i].To) })
	var followed []string
	for _, chain := range slices.Sorted(maps.Keys(noted)) {
		if noted[chain] == nil {
			return unix.ENOENT
		}
		m := noted[chain].member()
		has := func(x *index) func(int) bool { return func(i int) bool { return x.isSelecting(i, &m) } }
		if strings.HasPrefix(chain, allowPrefix) && slices.ContainsFunc(allow, has(r.to)) || strings.HasPrefix(chain, egressPrefix) && slices.ContainsFunc(egress, has(r.from)) {
			followed = append(followed, chain)
		}
	}
	if !isOfOthers && followed == nil {
		return nil
	}
	if r.whole != nil { // chains of others have rules that are not about this one
		var err error
		if r, err = r.whole(); err != nil {
			return err
		}
		allow, _ = r.matchedBy(about)
	}
	for _, chain := range followed {
		m := noted[chain].member()
		switch k := r.kindOf(&m); chain {
		case k.allow.chain:
			d.allowChain(r, k.allow)
		case k.egress.chain:
			d.egressChain(r, k.egress)
		default:
			return unix.ENOENT
		}
	}
	if !isOfOthers {
		return nil
	}
	for _, c := range r.reached() {
		if slices.ContainsFunc(c.rules, func(i int) bool { return slices.Contains(allow, i) }) {
			d.allowChain(r, c)
		}
	}
	return nil
}
