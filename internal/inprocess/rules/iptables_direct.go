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
	isJump := netfilter.JumpTo(r.Chain)
	table := h.nftablesTable(r.Table)
	for _, caller := range r.callers() {
		rules, err := b.Of(table, caller)
		if err != nil {
			return err
		}
		for _, rule := range rules {
			switch {
			case !isJump(rule):
			case !rule.Mentions(r.Comment):
				return errCalled
			default:
				b.DeleteRule(table, caller, rule)
			}
		}
	}
	b.FlushChain(table, r.Chain)
	b.DeleteChain(table, r.Chain)
	return nil
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
