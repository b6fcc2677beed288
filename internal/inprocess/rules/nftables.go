// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"errors"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// NFTables are rules of one attachment in one table of nftables.
type NFTables struct {
	Table *netfilter.Table
	// Rules are those to add.
	Rules []netfilter.Rule
	// Chains are where the attachment has rules: those to remove.
	Chains []string
	// Owns tells by its comment whether a rule in one of the chains is the attachment's.
	Owns func(comment string) bool
	// Replace is whether an addition removes what an earlier one has left.
	Replace bool
}

// commitNFTables commits the nftables rules of all chains, and joins the errors of each. An
// error of the socket is that of all that have such rules.
func commitNFTables(socket *netfilter.Socket, err error, all []*Set, errs []error) {
	if !hasNFTables(all) || err == nil && commitBatch(socket, all) == nil {
		return
	}
	for i, c := range all {
		if err == nil {
			errs[i] = errors.Join(errs[i], commitBatch(socket, []*Set{c}))
		} else if hasNFTables([]*Set{c}) {
			errs[i] = errors.Join(errs[i], err)
		}
	}
}

func hasNFTables(all []*Set) bool {
	return slices.ContainsFunc(all, func(s *Set) bool {
		return slices.ContainsFunc(s.Changes, func(c Change) bool { return c.NFTables != nil })
	})
}

func commitBatch(s *netfilter.Socket, all []*Set) error {
	return s.Change(func(b *netfilter.Batch) error {
		for _, c := range all {
			for _, r := range c.Changes {
				if r.NFTables == nil {
					continue
				}
				if err := r.NFTables.change(b, c, r.Remove); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// change adds or removes the rules of one attachment, whose handles are in a set.
func (r *NFTables) change(b *netfilter.Batch, of *Set, remove bool) error {
	if !remove {
		if err := b.MakeTable(r.Table); err != nil {
			return err
		}
	}
	if remove || b.IsUnanswered() || r.Replace && !of.Fresh {
		for _, chain := range r.Chains {
			owned, err := r.find(b.Listings, chain, of.Handles[netfilter.Place(r.Table, chain)])
			if err != nil {
				return err
			}
			for _, rule := range owned {
				b.DeleteRule(r.Table, chain, rule)
			}
		}
	}
	if !remove {
		for _, rule := range r.Rules {
			b.AddEchoedRule(r.Table, rule, func(handle uint64) { of.made(netfilter.Place(r.Table, rule.Chain), handle) })
		}
	}
	return nil
}

// find returns the rules of the attachment in a chain: those with the handles that it had, unless one of them is not its rule by now,
// or it may have others. To list the chain takes the longer the more attachments share it.
func (r *NFTables) find(l *netfilter.Listings, chain string, handles []uint64) ([]netfilter.ListedRule, error) {
	var found []netfilter.ListedRule
	for _, handle := range handles {
		if rule, ok := l.Rule(r.Table, chain, handle); ok && r.Owns(rule.Comment()) {
			found = append(found, rule)
		}
	}
	if len(found) > 0 && len(found) == len(handles) && r.isSharedBefore(l, slices.Min(handles)) {
		return found, nil
	}
	owned, _, err := r.Listed(l, chain)
	return owned, err
}

// isSharedBefore tells whether what all attachments share was there before a rule, by its handle. Otherwise the table may have been loaded on
// top of itself since, and have each rule twice.
func (r *NFTables) isSharedBefore(l *netfilter.Listings, handle uint64) bool {
	i := slices.IndexFunc(r.Table.Chains, func(c netfilter.Chain) bool { return c.Rules != nil })
	if i < 0 {
		return true
	}
	listed, err := l.Of(r.Table, r.Table.Chains[i].Name)
	return err == nil && !slices.ContainsFunc(listed, func(rule netfilter.ListedRule) bool { return rule.Handle > handle })
}

// Listed returns the rules of the attachment in a chain, and how many it lacks there.
func (r *NFTables) Listed(l *netfilter.Listings, chain string) (owned []netfilter.ListedRule, lacks int, err error) {
	all, err := l.Of(r.Table, chain)
	for _, rule := range all {
		if r.Owns(rule.Comment()) {
			owned = append(owned, rule)
		}
	}
	for _, rule := range r.Rules {
		if rule.Chain == chain {
			lacks++
		}
	}
	return owned, lacks - len(owned), err
}

// MaxComment is the length of comments that nft accepts, and so of those of the reference
// plugins.
const MaxComment = 128
