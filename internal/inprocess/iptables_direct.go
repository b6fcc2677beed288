// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// removeDirectly removes the chains of attachments, with what leads to them, from the tables of
// iptables-nft in one batch, and returns the changes that are left. The program would list and
// compare all rules of the host, and its end waits until the kernel has freed what it removed.
func (h *iptablesHost) removeDirectly(changes iptablesChangeList) iptablesChangeList {
	if h.legacy || h.socket == nil {
		return changes
	}
	for attempt := range guardedAttempts + 1 {
		b, left, err := h.directRemoval(changes)
		if err != nil {
			return changes
		}
		if attempt == guardedAttempts {
			b.generation = 0
		}
		err = h.socket.send(b)
		if err == nil {
			return left
		}
		if !errors.Is(err, unix.ERESTART) {
			return changes
		}
	}
	return changes
}

// directRemoval returns the batch that removes chains, and the changes that are left.
func (h *iptablesHost) directRemoval(changes iptablesChangeList) (*nftablesBatch, iptablesChangeList, error) {
	var left iptablesChangeList
	b, listings := &nftablesBatch{}, (*nftablesListings)(nil)
	for _, change := range changes {
		if !change.remove || change.chain == "" {
			left = append(left, change)
			continue
		}
		if listings == nil {
			listings = h.socket.listings()
		}
		if err := h.removeChain(b, change.iptablesRules, listings); err != nil {
			return nil, nil, err
		}
	}
	return b, left, nil
}

// errCalled is a chain of an attachment that a rule of another program leads to.
var errCalled = errors.New("a rule of another program leads to the chain")

// removeChain removes a chain, its rules, and what the plugin made that leads to it.
func (h *iptablesHost) removeChain(b *nftablesBatch, r *iptablesRules, listings *nftablesListings) error {
	isJump := jumpTo(r.chain)
	table := h.nftablesTable(r.table)
	for _, caller := range r.callers() {
		rules, err := listings.of(table, caller)
		if err != nil {
			return err
		}
		for _, rule := range rules {
			switch {
			case !isJump(rule):
			case !rule.mentions(r.comment):
				return errCalled
			default:
				listings.deleteRule(b, table, caller, rule)
			}
		}
	}
	b.flushChain(table, r.chain)
	b.deleteChain(table, r.chain)
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
			if rule.seen == nil || !h.socket.hasRule(h.nftablesTable(r.table), rule.chain, rule.seen) {
				return false
			}
		}
	}
	return true
}

// jumpTo returns what recognizes a rule that leads to a chain.
func jumpTo(chain string) func(listedRule) bool {
	return hasAny(attributeOf(unix.NFTA_VERDICT_CHAIN, append([]byte(chain), 0)))
}

// allTo returns what recognizes a rule that leads to a chain all packets, or all that an
// extension of iptables matches: the administrator may have rules for some of them.
func allTo(chain, extension string) func(listedRule) bool {
	isJump := jumpTo(chain)
	return func(rule listedRule) bool {
		if !isJump(rule) {
			return false
		}
		for _, element := range attributes(rule.exprs) {
			switch name := stringOf(element, unix.NFTA_EXPR_NAME); name {
			case "counter", "immediate":
			case "match":
				if !bytes.Contains(element, attributeOf(unix.NFTA_MATCH_NAME, append([]byte(extension), 0))) {
					return false
				}
			default:
				return false
			}
		}
		return true
	}
}

// stringOf returns an attribute that is a text, empty if there is none.
func stringOf(data []byte, wanted uint16) string {
	for kind, value := range attributes(data) {
		if kind&^unix.NLA_F_NESTED == wanted {
			return string(bytes.TrimSuffix(value, []byte{0}))
		}
	}
	return ""
}

// withMark returns what recognizes a rule that has a mark as its value and as its mask.
// Versions of iptables-nft have an expression of nftables or an extension of iptables for it.
func withMark(mark uint32) func(listedRule) bool {
	value := binary.NativeEndian.AppendUint32(nil, mark)
	return hasAny(attributeOf(unix.NFTA_DATA_VALUE, value), slices.Repeat(value, 2))
}

func hasAny(patterns ...[]byte) func(listedRule) bool {
	return func(rule listedRule) bool {
		return slices.ContainsFunc(patterns, func(pattern []byte) bool { return bytes.Contains(rule.exprs, pattern) })
	}
}

// attributeOf returns a netlink attribute, without what comes after it.
func attributeOf(kind uint16, value []byte) []byte {
	data := binary.NativeEndian.AppendUint16(nil, uint16(unix.NLA_HDRLEN+len(value)))
	return append(binary.NativeEndian.AppendUint16(data, kind), value...)
}
