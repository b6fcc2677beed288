// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"cmp"
	"maps"
	"slices"

	"github.com/google/nftables/expr"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// difference is between a table as it has to be and what the kernel has of it.
type difference struct {
	*table
	*listing
}

// between compares them; without a listing there is no such table.
func between(t *table, l *listing) difference { return difference{t, cmp.Or(l, &listing{})} }

// bring fills a batch with what makes of a table that is there one that is as it has to be; of none it makes all. What stays is not touched:
// a packet that is on its way while the kernel changes from the old rules to the new ones looks into sets that have both.
func (d difference) bring(b *netfilter.Batch) {
	b.AddTable(&d.Table)
	if d.listing.sets != nil && !hasChain(d.listing, d.version) {
		b.DeleteTable(&d.Table)
		b.AddTable(&d.Table)
		d.listing = &listing{}
	}
	d.bringForm(b)
	for _, name := range slices.Sorted(maps.Keys(d.table.sets)) {
		d.bringElements(b, d.table.sets[name])
	}
	d.removeRest(b)
}

// bringForm makes the sets and chains that are missing, and the rules of chains that are not as they have to be.
func (d difference) bringForm(b *netfilter.Batch) {
	for _, name := range slices.Sorted(maps.Keys(d.table.sets)) {
		if d.listing.sets[name] == nil {
			b.AddKeySet(&d.Table, &d.table.sets[name].KeySet)
		}
	}
	var changed []*netfilter.Chain
	for _, name := range d.chainNames() {
		c := d.table.chains[name]
		if !hasChain(d.listing, name) {
			b.AddChain(&d.Table, c)
		}
		if d.lacksChain(c) {
			changed = append(changed, c)
		}
	}
	for _, c := range changed {
		b.SetRules(&d.Table, c)
	}
}

func hasChain(l *listing, name string) bool {
	_, ok := l.chains[name]
	return ok
}

func (d difference) bringElements(b *netfilter.Batch, s *set) {
	var gone, made []netfilter.Element
	for id, e := range d.listing.sets[s.Name] {
		wanted, ok := s.elements[id]
		if !ok || d.lacksElement(s.Name, wanted) {
			gone = append(gone, e)
		}
	}
	for _, e := range sorted(s.elements) {
		if d.lacksElement(s.Name, e) {
			made = append(made, e)
		}
	}
	b.DeleteElements(&d.Table, s.Name, gone)
	b.AddElements(&d.Table, s.Name, made)
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
func (d difference) removeRest(b *netfilter.Batch) {
	var chains, sets []string
	for _, name := range slices.Sorted(maps.Keys(d.listing.chains)) {
		if d.table.chains[name] == nil {
			chains = append(chains, name)
			b.FlushChain(&d.Table, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.listing.sets)) {
		if d.table.sets[name] == nil {
			sets = append(sets, name)
		}
	}
	for _, name := range sets {
		b.DeleteKeySet(&d.Table, name)
	}
	for _, name := range chains {
		b.DeleteChain(&d.Table, name)
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
	t.version = versionPrefix + Sum(text)
	t.chain(t.version, "form of the table")
	return t
}
