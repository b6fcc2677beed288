// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"os"
	"slices"

	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// ruleSet are the rules that a chain leaves to be committed. The zero value has none.
type ruleSet struct {
	rules []rules
	// iptables is which program is to change them. Empty: that of the host.
	iptables IPTables
	// translations are those that a repair adds.
	translations []translation
	// repair is whose rules are added only if they are missing; nil for other verbs than CHECK.
	repair *remedy.Repair
}

// add adds rules.
func (s *ruleSet) add(more ...rules) { s.rules = append(s.rules, more...) }

// rules are the rules of one plugin for one attachment, of one backend.
type rules struct {
	remove   bool
	iptables *iptablesRules
	nftables *nftablesRules
}

// rulesHost is the host's rules of both backends.
type rulesHost struct {
	ctx context.Context
	// holds are inherited by programs.
	holds []*os.File
	// socket is nil if there are no rules, and if it cannot be had because of err.
	socket *netfilter.Socket
	err    error
}

// openRules returns the host's rules, which are asked only if one of the chains has any. Programs inherit hold,
// unless it is nil.
func openRules(ctx context.Context, hold *os.File, all []*ruleSet) *rulesHost {
	h := &rulesHost{ctx: ctx}
	if hold != nil {
		h.holds = []*os.File{hold}
	}
	if slices.ContainsFunc(all, func(s *ruleSet) bool { return len(s.rules) > 0 }) {
		h.socket, h.err = netfilter.Dial(ctx)
	}
	return h
}

// close ends the connection to the kernel.
func (h *rulesHost) close() {
	if h.socket != nil {
		_ = h.socket.Close() // nothing is left to send
	}
}

// commit adds and removes the rules of all chains, and reports the errors of each in errs: one
// transaction for each family and backend. Where that fails, because the host has changed or
// lacks what all share, each plugin's rules are handled separately.
func (h *rulesHost) commit(all []*ruleSet, errs []error) {
	commitNFTables(h.socket, h.err, all, errs)
	for _, kind := range kindsOf(all) {
		for _, family := range iptablesFamilies {
			(&iptablesHost{ctx: h.ctx, holds: h.holds, kind: kind, family: family, socket: h.socket}).commit(all, errs)
		}
	}
}
