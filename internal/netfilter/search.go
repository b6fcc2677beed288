// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// RuleSearch is what is looked for in nftables of this network namespace: rules with a comment or an address, else the chain.
type RuleSearch struct {
	Family       Family
	Table, Chain string
	// Comment recognizes that of a rule. Nil: any comment.
	Comment func(comment string) bool
	// Address is one that a rule compares with. Zero: none.
	Address netip.Addr
}

// SearchRules tells which of the searches find something. The program nft is not needed. A kernel without nftables has nothing.
func SearchRules(ctx context.Context, searches []RuleSearch) (found []bool, err error) {
	found = make([]bool, len(searches))
	s, err := Dial(ctx)
	if err != nil {
		return found, ignoreUnsupported(err)
	}
	defer s.Close()
	listings := s.Listings()
	for i, search := range searches {
		t := &Table{Family: search.Family, Name: search.Table}
		var failed error
		if search.Comment == nil && !search.Address.IsValid() { // the chain itself is looked for
			found[i], failed = s.HasChain(t, search.Chain)
		} else {
			var rules []ListedRule
			rules, failed = listings.Of(t, search.Chain)
			found[i] = slices.ContainsFunc(rules, search.finds)
		}
		err = errors.Join(err, failed)
	}
	return found, err
}

func (s RuleSearch) String() string {
	what := fmt.Sprintf("chain %s of table %s %s", s.Chain, s.Family, s.Table)
	switch {
	case s.Address.IsValid():
		return fmt.Sprintf("a rule with %s in %s", s.Address, what)
	case s.Comment != nil:
		return "a rule of it in " + what
	}
	return what
}

func (s RuleSearch) finds(rule ListedRule) bool {
	if s.Comment != nil && !s.Comment(rule.Comment()) {
		return false
	}
	return !s.Address.IsValid() || bytes.Contains(rule.exprs, attributeOf(unix.NFTA_DATA_VALUE, s.Address.AsSlice()))
}
