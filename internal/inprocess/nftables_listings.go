// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

// nftablesListings are the rules of chains as they were listed for one batch: attachments share
// the chains that they look through.
type nftablesListings struct {
	*nftablesSocket

	rules map[string][]listedRule
	// number is the generation of nftables before the first listing; 0 if it is unknown.
	number uint32
}

func (s *nftablesSocket) listings() *nftablesListings {
	number, err := s.generation()
	if err != nil {
		number = 0
	}
	return &nftablesListings{s, map[string][]listedRule{}, number}
}

// of returns the rules of a chain, none if there is no such chain.
func (l *nftablesListings) of(t *nftablesTable, chain string) ([]listedRule, error) {
	key := t.key() + " " + chain
	if rules, ok := l.rules[key]; ok {
		return rules, nil
	}
	rules, err := l.list(t, chain)
	l.rules[key] = rules
	return rules, err
}

// deleteRule deletes a rule that was listed. A handle belongs to another rule when the table has
// been made anew meanwhile, as a reload of all rules does.
func (l *nftablesListings) deleteRule(b *nftablesBatch, t *nftablesTable, chain string, rule listedRule) {
	b.generation = l.number
	b.deleteRule(t, chain, rule.handle)
}
