// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"maps"
	"slices"

	"github.com/google/nftables/expr"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// bring fills a batch with what makes of a table that is there one that is as it has to be; of none it makes all. What stays is not touched:
// a packet that is on its way while the kernel changes from the old rules to the new ones looks into sets that have both.
func (t *table) bring(b *netfilter.Batch, l *listing) {
	b.AddTable(&t.Table)
	if l != nil && !hasChain(l, t.version) {
		b.DeleteTable(&t.Table)
		b.AddTable(&t.Table)
		l = nil
	}
	if l == nil {
		l = &listing{}
	}
	t.bringForm(b, l)
	for _, name := range slices.Sorted(maps.Keys(t.sets)) {
		t.bringElements(b, t.sets[name], l)
	}
	t.removeRest(b, l)
}

// bringForm makes the sets and chains that are missing, and the rules of chains that are not as they have to be.
func (t *table) bringForm(b *netfilter.Batch, l *listing) {
	for _, name := range slices.Sorted(maps.Keys(t.sets)) {
		if l.sets[name] == nil {
			b.AddKeySet(&t.Table, &t.sets[name].KeySet)
		}
	}
	var changed []*netfilter.Chain
	for _, name := range t.chainNames() {
		c := t.chains[name]
		if !hasChain(l, name) {
			b.AddChain(&t.Table, c)
		}
		if l.lacksChain(c) {
			changed = append(changed, c)
		}
	}
	for _, c := range changed {
		b.SetChain(&t.Table, c)
	}
}

func hasChain(l *listing, name string) bool {
	_, ok := l.chains[name]
	return ok
}

func (t *table) bringElements(b *netfilter.Batch, s *set, l *listing) {
	var gone, made []netfilter.Element
	for id, e := range l.sets[s.Name] {
		wanted, ok := s.elements[id]
		if !ok || l.lacksElement(s.Name, wanted) {
			gone = append(gone, e)
		}
	}
	for _, e := range sorted(s.elements) {
		if l.lacksElement(s.Name, e) {
			made = append(made, e)
		}
	}
	b.DeleteElements(&t.Table, s.Name, gone)
	b.AddElements(&t.Table, s.Name, made)
}

// sorted are elements in the order in which the kernel takes them.
func sorted(elements map[string]netfilter.Element) []netfilter.Element {
	all := make([]netfilter.Element, 0, len(elements))
	for _, id := range slices.Sorted(maps.Keys(elements)) {
		all = append(all, elements[id])
	}
	return all
}

// removeRest removes what does not have to be there: first what leads to it.
func (t *table) removeRest(b *netfilter.Batch, l *listing) {
	var chains, sets []string
	for _, name := range slices.Sorted(maps.Keys(l.chains)) {
		if t.chains[name] == nil {
			chains = append(chains, name)
			b.FlushChain(&t.Table, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.sets)) {
		if t.sets[name] == nil {
			sets = append(sets, name)
		}
	}
	for _, name := range sets {
		b.DeleteKeySet(&t.Table, name)
	}
	for _, name := range chains {
		b.DeleteChain(&t.Table, name)
	}
}

const versionPrefix = "version-"

// seal adds the chain of the version, when all is there that does not depend on rules.
func (t *table) seal() *table {
	text := appendText(nil, slices.Sorted(maps.Keys(t.sets))...)
	for _, name := range t.chainNames() {
		c := t.chains[name]
		text = appendText(text, name, c.Comment)
		if c.Hook != nil {
			text = append(text, byte(*c.Hook.Number), byte(*c.Hook.Priority), byte(*c.Hook.Priority>>8))
		}
		for _, r := range c.Rules {
			text = appendText(text, r.Comment)
			for _, e := range r.Exprs {
				data, _ := expr.Marshal(0, e) // what cannot be marshalled is an error of the batch
				text = append(text, data...)
			}
		}
	}
	t.version = versionPrefix + sum(text)
	t.chain(t.version, "form of the table")
	return t
}
