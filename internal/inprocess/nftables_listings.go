// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

// nftablesListings are the rules of chains as they were listed for one batch: attachments share
// the chains that they look through.
type nftablesListings struct {
	*nftablesSocket

	rules map[string][]listedRule
}

func (s *nftablesSocket) listings() *nftablesListings {
	return &nftablesListings{s, map[string][]listedRule{}}
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
