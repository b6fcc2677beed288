// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// nftablesRules are rules of one attachment in one table of nftables.
type nftablesRules struct {
	table *nftablesTable
	// rules are those to add.
	rules []nftablesRule
	// chains are where the attachment has rules: those to remove.
	chains []string
	// owns tells by its comment whether a rule in one of the chains is the attachment's.
	owns func(comment string) bool
	// replace is whether an addition removes what an earlier one has left.
	replace bool
}

// nftablesTable is a table that all attachments share. It is made where it is missing, and
// stays.
type nftablesTable struct {
	family        nftables.TableFamily
	name, comment string
	chains        []nftablesChain
}

// nftablesChain is a chain that all attachments share.
type nftablesChain struct {
	name, comment string
	// hook is where packets enter the chain; nil if only other chains lead to it.
	hook *nftablesHook
	// rules are all that the chain has to have; nil if attachments add theirs.
	rules []nftablesRule
}

// nftablesHook is the hook of a base chain of type nat, or of type filter.
type nftablesHook struct {
	number   *nftables.ChainHook
	priority *nftables.ChainPriority
	filters  bool
}

// nftablesRule is a rule in a chain.
type nftablesRule struct {
	chain   string
	exprs   []expr.Any
	comment string
	// text is the rule in the language of nft. Empty: all attachments share it.
	text string
}

// nftablesAttempts is how often a batch is tried: between listing and removing, another
// process may have removed a rule.
const nftablesAttempts = 5

// guardedAttempts is how many of them the kernel refuses if there was any change since the
// listing. On a host where rules change all the time, the others are as those of nft.
const guardedAttempts = 2

// commitNFTables commits the nftables rules of all chains, and joins the errors of each. An
// error of the socket is that of all that have such rules.
func commitNFTables(socket *nftablesSocket, err error, all []*Changes, errs []error) {
	if !hasNFTables(all) || err == nil && socket.commit(all) == nil {
		return
	}
	for i, c := range all {
		if err == nil {
			errs[i] = errors.Join(errs[i], socket.commit([]*Changes{c}))
		} else if hasNFTables([]*Changes{c}) {
			errs[i] = errors.Join(errs[i], err)
		}
	}
}

func hasNFTables(all []*Changes) bool {
	for _, c := range all {
		for _, r := range c.rules {
			if r.nftables != nil {
				return true
			}
		}
	}
	return false
}

// commit makes the changes in one batch.
func (s *nftablesSocket) commit(all []*Changes) error {
	var err error
	for attempt := range nftablesAttempts {
		var b *nftablesBatch
		if b, err = s.batch(all); err != nil {
			return err
		}
		if attempt >= guardedAttempts {
			b.generation = 0
		}
		if err = s.send(b); err == nil {
			return nil
		}
	}
	return err
}

// batch returns the messages that make the changes to the rules as they are now.
func (s *nftablesSocket) batch(all []*Changes) (*nftablesBatch, error) {
	b, listings := &nftablesBatch{}, s.listings()
	made := map[string]bool{} // tables in this batch
	for _, c := range all {
		for _, r := range c.rules {
			if r.nftables == nil {
				continue
			}
			if table := r.nftables.table; !r.remove && !made[table.key()] {
				made[table.key()] = true
				if err := listings.makeTable(b, table); err != nil {
					return nil, err
				}
			}
			if err := listings.change(b, r.nftables, r.remove); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// key identifies the table of this network namespace.
func (t *nftablesTable) key() string { return string(rune(t.family)) + t.name }

// makeTable makes what all attachments share. Rules that are as they have to be stay as they
// are: the kernel waits for packets in flight where it removes any.
func (l *nftablesListings) makeTable(b *nftablesBatch, table *nftablesTable) error {
	b.addTable(table)
	for i := range table.chains {
		chain := &table.chains[i]
		b.addChain(table, chain)
		if chain.rules == nil {
			continue
		}
		existing, err := l.of(table, chain.name)
		if err != nil {
			return err
		}
		if sameRules(existing, chain.rules, table.family) {
			continue
		}
		b.flushChain(table, chain.name)
		for _, rule := range chain.rules {
			b.addRule(table, rule)
		}
	}
	return nil
}

// change adds or removes the rules of one attachment.
func (l *nftablesListings) change(b *nftablesBatch, r *nftablesRules, remove bool) error {
	if remove || r.replace {
		for _, chain := range r.chains {
			existing, err := l.of(r.table, chain)
			if err != nil {
				return err
			}
			for _, rule := range existing {
				if r.owns(rule.comment()) {
					l.deleteRule(b, r.table, chain, rule)
				}
			}
		}
	}
	if !remove {
		for _, rule := range r.rules {
			b.addRule(r.table, rule)
		}
	}
	return nil
}
