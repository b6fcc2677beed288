// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

// Listings are the rules of chains as they were listed for one batch: attachments share
// the chains that they look through.
type Listings struct {
	*Socket

	rules map[string][]ListedRule
	// generation is that of nftables before the first listing; 0 if it is unknown.
	generation uint32
}

// Listings returns a set of listings that is empty so far.
func (s *Socket) Listings() *Listings { return &Listings{Socket: s} }

// Of returns the rules of a chain, none if there is no such chain.
func (l *Listings) Of(t *Table, chain string) ([]ListedRule, error) {
	l.begin()
	key := Place(t, chain)
	if rules, ok := l.rules[key]; ok {
		return rules, nil
	}
	rules, err := l.List(t, chain)
	l.rules[key] = rules
	return rules, err
}

// Rule returns a rule of a chain by its handle; ok is false if there is none, or it is not known.
func (l *Listings) Rule(t *Table, chain string, handle uint64) (rule ListedRule, ok bool) {
	l.begin()
	return l.rule(t, chain, handle)
}

// begin notes the generation before the first listing.
func (l *Listings) begin() {
	if l.rules == nil {
		l.rules = map[string][]ListedRule{}
		l.generation, _ = l.Generation() // without it a batch is not guarded
	}
}

// Place names a chain of this network namespace: FAMILY TABLE CHAIN.
func Place(t *Table, chain string) string { return t.key() + " " + chain }
