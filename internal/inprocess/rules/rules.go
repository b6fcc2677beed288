// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package rules changes rules of iptables and nftables for plugins. Plugins say which rules to add or to remove (Set). Host.Commit
// does so for all attachments of an allocation together, List lists them, and CommitMissing adds only those that are missing.
//
// # Commit
//
// All changes of a kind are one transaction. That of iptables is optimistic: it asserts what
// attachments share, and makes what one has. If it fails, what is shared is made first, and after
// a second failure each attachment is handled by itself. A batch of nftables that removes rules by
// their handles has the generation of their listing: after a reload of all rules the handles are
// those of others, and the kernel refuses it.
//
// # Repair
//
// Which rules iptables has, iptables itself says: the rules are added to an empty network namespace, and what
// iptables-save prints there is compared with the host's. That takes the same few processes for
// one rule and for thousands, with each kind of iptables.
package rules

import (
	"context"
	"os"
	"slices"

	"github.com/allocnet/allocnet/internal/inprocess/flows"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// Set are the rules that a chain leaves to be committed. The zero value has none.
type Set struct {
	Changes []Change
	// Kind is which program is to change them. Empty: that of the host.
	Kind Kind
	// Translations are those that a repair adds.
	Translations []flows.Translation
	// Handles are those of the attachment's rules in nftables, by the chain (netfilter.Place): of former ones, and after their commit
	// those that it added. They may be of other rules by now.
	Handles map[string][]uint64
	// Fresh is whether no rules of the attachment are looked for before some are added: nothing has made any.
	Fresh bool
	// Repair is whose rules are added only if they are missing; nil for other verbs than CHECK.
	Repair *remedy.Repair
}

// Add adds rules.
func (s *Set) Add(more ...Change) { s.Changes = append(s.Changes, more...) }

// iptables returns those of a kind and a family.
func (s *Set) iptables(kind Kind, family netfilter.Family) []Change {
	return slices.DeleteFunc(slices.Clone(s.Changes), func(c Change) bool {
		return s.Kind != kind || c.IPTables == nil || c.IPTables.Family != family
	})
}

// made notes the handle of a rule that was added.
func (s *Set) made(place string, handle uint64) {
	if s.Handles == nil {
		s.Handles = map[string][]uint64{}
	}
	s.Handles[place] = append(s.Handles[place], handle)
}

// Change are the rules of one plugin for one attachment, of one backend.
type Change struct {
	Remove   bool
	IPTables *IPTables
	NFTables *NFTables
}

// Host is the host's rules of both backends.
type Host struct {
	ctx context.Context
	// holds are inherited by programs.
	holds []*os.File
	// socket is nil if there are no rules, and if it cannot be had because of err.
	socket *netfilter.Socket
	err    error
}

// Open returns the host's rules, which are asked only if one of the chains has any. Programs inherit hold,
// unless it is nil.
func Open(ctx context.Context, hold *os.File, all []*Set) *Host {
	h := &Host{ctx: ctx}
	if hold != nil {
		h.holds = []*os.File{hold}
	}
	if slices.ContainsFunc(all, func(s *Set) bool { return len(s.Changes) > 0 }) {
		h.socket, h.err = netfilter.Dial(ctx)
	}
	return h
}

// Close ends the connection to the kernel.
func (h *Host) Close() {
	if h.socket != nil {
		h.socket.Close()
	}
}

// Commit adds and removes the rules of all chains, and reports the errors of each in errs: one
// transaction for each family and backend. Where that fails, because the host has changed or
// lacks what all share, each plugin's rules are handled separately.
func (h *Host) Commit(all []*Set, errs []error) {
	commitNFTables(h.socket, h.err, all, errs)
	for _, kind := range kindsOf(all) {
		for _, family := range Families {
			(&iptablesHost{iptablesProgram: iptablesProgram{ctx: h.ctx, holds: h.holds, kind: kind, family: family}, socket: h.socket}).commit(all, errs)
		}
	}
}
