// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"errors"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// removeDirectly removes the chains of attachments, with what leads to them, from the tables of
// iptables-nft in one batch, and returns the changes that are left. The program would list and
// compare all rules of the host, and its end waits until the kernel has freed what it removed.
func (h *iptablesHost) removeDirectly(changes iptablesChangeList) iptablesChangeList {
	if h.legacy || h.socket == nil {
		return changes
	}
	isDirect := func(change iptablesChange) bool { return change.remove && change.Chain != "" }
	err := h.socket.Change(func(b *netfilter.Batch) error {
		for _, change := range changes {
			if !isDirect(change) {
				continue
			}
			if err := h.removeChain(b, change.IPTables); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return changes
	}
	return slices.DeleteFunc(changes, isDirect)
}

var errCalled = errors.New("a rule of another program leads to the chain")

// removeChain removes a chain, its rules, and what the plugin made that leads to it.
func (h *iptablesHost) removeChain(b *netfilter.Batch, r *IPTables) error {
	table := h.nftablesTable(r.Table)
	jumps, err := r.jumps(b.Listings, table)
	if err != nil {
		return err
	}
	for _, jump := range jumps {
		b.DeleteRule(table, jump.chain, jump.ListedRule)
	}
	b.FlushChain(table, r.Chain)
	b.DeleteChain(table, r.Chain)
	return nil
}

// jump is a rule in a chain that leads to that of an attachment.
type jump struct {
	netfilter.ListedRule

	chain string
}

// jumps returns the rules that lead to the chain of the attachment. The chains that have them are listed only if they are not those
// that were made with it: to list these takes the longer the more attachments share them.
func (r *IPTables) jumps(l *netfilter.Listings, table *netfilter.Table) (jumps []jump, err error) {
	chain, exists, err := l.FindChain(table, r.Chain)
	if err != nil {
		return nil, err
	}
	if exists {
		own, err := l.Of(table, r.Chain)
		if err != nil {
			return nil, err
		}
		if jumps = r.jumpsMadeWith(l, table, chain.Handle, own); len(own)+len(jumps) == chain.Uses {
			return jumps, nil
		}
	}
	return r.listJumps(l, table)
}

// mostGuesses is how many handles are asked for at most.
const mostGuesses = 16

// jumpsMadeWith returns the jumps whose handles are among those after the chain's that its own rules do not have: a transaction of
// iptables gets consecutive ones.
func (r *IPTables) jumpsMadeWith(l *netfilter.Listings, table *netfilter.Table, chain uint64, own []netfilter.ListedRule) (jumps []jump) {
	last, isJump := chain, netfilter.JumpTo(r.Chain)
	for _, rule := range own {
		last = max(last, rule.Handle)
	}
	guesses := 0
	for handle := chain + 1; handle <= last+uint64(len(r.Rules)); handle++ {
		if slices.ContainsFunc(own, func(rule netfilter.ListedRule) bool { return rule.Handle == handle }) {
			continue
		}
		if guesses++; guesses > mostGuesses {
			return nil
		}
		for _, caller := range r.callers() {
			if rule, ok := l.Rule(table, caller, handle); ok && isJump(rule) && rule.Mentions(r.Comment) {
				jumps = append(jumps, jump{rule, caller})
			}
		}
	}
	return jumps
}

// listJumps lists the chains that have such rules.
func (r *IPTables) listJumps(l *netfilter.Listings, table *netfilter.Table) (jumps []jump, err error) {
	isJump := netfilter.JumpTo(r.Chain)
	for _, caller := range r.callers() {
		rules, err := l.Of(table, caller)
		if err != nil {
			return nil, err
		}
		for _, rule := range rules {
			switch {
			case !isJump(rule):
			case !rule.Mentions(r.Comment):
				return nil, errCalled
			default:
				jumps = append(jumps, jump{rule, caller})
			}
		}
	}
	return jumps, nil
}

// hasShared tells whether it is certain that a family has what all attachments share. To assert
// it, iptables would list all rules of the host.
func (h *iptablesHost) hasShared(r *IPTables) bool {
	if h.legacy || h.socket == nil {
		return false
	}
	for _, group := range r.Shared {
		for _, rule := range group.Rules {
			if rule.Seen == nil || !h.socket.HasRule(h.nftablesTable(r.Table), rule.Chain, rule.Seen) {
				return false
			}
		}
	}
	return true
}
