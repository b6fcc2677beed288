// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// nftablesRules are rules of one attachment in one table of nftables.
type nftablesRules struct {
	table *netfilter.Table
	// rules are those to add.
	rules []netfilter.Rule
	// chains are where the attachment has rules: those to remove.
	chains []string
	// owns tells by its comment whether a rule in one of the chains is the attachment's.
	owns func(comment string) bool
	// replace is whether an addition removes what an earlier one has left.
	replace bool
}

// commitNFTables commits the nftables rules of all chains, and joins the errors of each. An
// error of the socket is that of all that have such rules.
func commitNFTables(socket *netfilter.Socket, err error, all []*ruleSet, errs []error) {
	if !hasNFTables(all) || err == nil && commitBatch(socket, all) == nil {
		return
	}
	for i, c := range all {
		if err == nil {
			errs[i] = errors.Join(errs[i], commitBatch(socket, []*ruleSet{c}))
		} else if hasNFTables([]*ruleSet{c}) {
			errs[i] = errors.Join(errs[i], err)
		}
	}
}

func hasNFTables(all []*ruleSet) bool {
	for _, c := range all {
		for _, r := range c.rules {
			if r.nftables != nil {
				return true
			}
		}
	}
	return false
}

// commitBatch makes the changes in one batch.
func commitBatch(s *netfilter.Socket, all []*ruleSet) error {
	return s.Change(func(b *netfilter.Batch) error {
		for _, c := range all {
			for _, r := range c.rules {
				if r.nftables == nil {
					continue
				}
				if err := r.nftables.change(b, r.remove); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// change adds or removes the rules of one attachment.
func (r *nftablesRules) change(b *netfilter.Batch, remove bool) error {
	if !remove {
		if err := b.MakeTable(r.table); err != nil {
			return err
		}
	}
	if remove || r.replace {
		for _, chain := range r.chains {
			owned, _, err := r.listed(b.Listings, chain)
			if err != nil {
				return err
			}
			for _, rule := range owned {
				b.DeleteRule(r.table, chain, rule)
			}
		}
	}
	if !remove {
		for _, rule := range r.rules {
			b.AddRule(r.table, rule)
		}
	}
	return nil
}

// listed returns the rules of the attachment in a chain, and how many it lacks there.
func (r *nftablesRules) listed(l *netfilter.Listings, chain string) (owned []netfilter.ListedRule, lacks int, err error) {
	all, err := l.Of(r.table, chain)
	for _, rule := range all {
		if r.owns(rule.Comment()) {
			owned = append(owned, rule)
		}
	}
	for _, rule := range r.rules {
		if rule.Chain == chain {
			lacks++
		}
	}
	return owned, lacks - len(owned), err
}
