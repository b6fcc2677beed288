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
	if l.rules == nil {
		l.rules = map[string][]ListedRule{}
		l.generation, _ = l.Generation() // without it a batch is not guarded
	}
	key := t.key() + " " + chain
	if rules, ok := l.rules[key]; ok {
		return rules, nil
	}
	rules, err := l.List(t, chain)
	l.rules[key] = rules
	return rules, err
}
