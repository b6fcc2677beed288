// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

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
	isDirect := func(change iptablesChange) bool { return change.remove && change.chain != "" }
	err := h.socket.Change(func(b *netfilter.Batch) error {
		for _, change := range changes {
			if !isDirect(change) {
				continue
			}
			if err := h.removeChain(b, change.iptablesRules); err != nil {
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

// errCalled is a chain of an attachment that a rule of another program leads to.
var errCalled = errors.New("a rule of another program leads to the chain")

// removeChain removes a chain, its rules, and what the plugin made that leads to it.
func (h *iptablesHost) removeChain(b *netfilter.Batch, r *iptablesRules) error {
	isJump := netfilter.JumpTo(r.chain)
	table := h.nftablesTable(r.table)
	for _, caller := range r.callers() {
		rules, err := b.Of(table, caller)
		if err != nil {
			return err
		}
		for _, rule := range rules {
			switch {
			case !isJump(rule):
			case !rule.Mentions(r.comment):
				return errCalled
			default:
				b.DeleteRule(table, caller, rule)
			}
		}
	}
	b.FlushChain(table, r.chain)
	b.DeleteChain(table, r.chain)
	return nil
}

// hasShared tells whether it is certain that a family has what all attachments share. To assert
// it, iptables would list all rules of the host.
func (h *iptablesHost) hasShared(r *iptablesRules) bool {
	if h.legacy || h.socket == nil {
		return false
	}
	for _, group := range r.shared {
		for _, rule := range group.rules {
			if rule.seen == nil || !h.socket.HasRule(h.nftablesTable(r.table), rule.chain, rule.seen) {
				return false
			}
		}
	}
	return true
}
