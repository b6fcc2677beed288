// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// iptablesRules are rules of one attachment in one table of one family.
type iptablesRules struct {
	family netfilter.Family
	table  string
	// shared are what all attachments use. They are made where they are missing, and stay.
	shared []iptablesGroup
	// chain is the one of the attachment alone; empty if it has none.
	chain string
	// comment is that of the rules in chains of others that lead to the chain: another program's rule may do so, too.
	comment string
	// rules are those of the attachment, in its chain and in chains of others.
	rules []iptablesRule
	// address is what rules in chains of others name if there is no chain: an earlier
	// attachment with the address may have left them.
	address net.IP
}

// iptablesGroup are chains and rules that all attachments use, in the order in which they are
// made.
type iptablesGroup struct {
	chains []string
	rules  []iptablesRule
}

// iptablesRule is a rule in a chain.
type iptablesRule struct {
	chain string
	args  []string
	// first is whether it is inserted before the rules that the chain has.
	first bool
	// seen recognizes the rule as iptables-nft has made it; nil if only iptables can tell.
	seen func(netfilter.ListedRule) bool
}

// add adds a rule unless there is the same: that of the first of two addresses stays where
// it is. iptables does not distinguish "TCP" and "tcp".
func (r *iptablesRules) add(rule iptablesRule) {
	same := func(other iptablesRule) bool {
		return other.chain == rule.chain && slices.EqualFunc(other.args, rule.args, strings.EqualFold)
	}
	if !slices.ContainsFunc(r.rules, same) {
		r.rules = append(r.rules, rule)
	}
}

var iptablesFamilies = []netfilter.Family{netfilter.IPv4, netfilter.IPv6}

// iptablesTables are the tables that the plugins use, in the order of transactions.
var iptablesTables = []string{"filter", "nat"}

// iptablesChange is what one attachment adds or removes.
type iptablesChange struct {
	*iptablesRules

	remove bool
	// owner is the index of the attachment's chain of plugins.
	owner int
	// exists is whether there may be rules with the address already, or other changes add them.
	exists bool
	// ready is whether all that is shared is known to exist.
	ready bool
}

type iptablesChangeList []iptablesChange

// in returns the changes in one table.
func (l iptablesChangeList) in(table string) iptablesChangeList {
	return slices.DeleteFunc(slices.Clone(l), func(c iptablesChange) bool { return c.table != table })
}

// adds tells whether rules with the address of a change are among those to add: a chain may have
// the firewall plugin twice, and each rule is made once.
func (l iptablesChangeList) adds(change iptablesChange) bool {
	return slices.ContainsFunc(l, func(c iptablesChange) bool {
		return !c.remove && c.table == change.table && c.address.Equal(change.address)
	})
}

// commit commits the rules of all chains, and joins the errors of each. All tables are one
// call of iptables-restore, which commits one after another.
func (h *iptablesHost) commit(all []*ruleSet, errs []error) {
	changes := h.removeDirectly(h.changes(all))
	if h.restore(&changes.transaction(iptablesTables...).Transaction) == nil {
		return
	}
	for _, table := range iptablesTables {
		in := changes.in(table)
		if len(in) == 0 || len(in) < len(changes) && h.made(in) {
			continue
		}
		h.commitTable(in, table, errs)
	}
}

// changes returns the changes of the kind and the family, without the removal of what is known not to
// exist.
func (h *iptablesHost) changes(all []*ruleSet) iptablesChangeList {
	var changes iptablesChangeList
	for i, c := range all {
		for _, r := range c.rules {
			if c.iptables == h.kind && r.iptables != nil && r.iptables.family == h.family {
				changes = append(changes, iptablesChange{iptablesRules: r.iptables, remove: r.remove, owner: i})
			}
		}
	}
	if len(changes) == 0 {
		return nil
	}
	h.identify()
	var needed iptablesChangeList
	for _, change := range changes {
		change.exists = change.address != nil && (needed.adds(change) || h.names(change.iptablesRules))
		if change.remove && (h.lacks(change.table, change.chain) || change.address != nil && (!change.exists || h.missing && h.lacks(change.table, chainsOf(change.rules)[0]))) {
			continue // without the program, nothing can be said of the rules, but there is no chain that has any
		}
		if !change.remove {
			change.ready = h.hasShared(change.iptablesRules)
		}
		needed = append(needed, change)
	}
	return needed
}

// made tells whether a table has all that is to be added: it was committed before the
// transaction failed in another table.
func (h *iptablesHost) made(changes iptablesChangeList) bool {
	t := &iptablesTransaction{}
	for _, change := range changes {
		if change.remove {
			return false
		}
		t.check(change.iptablesRules)
	}
	return h.restoreTable(&t.Transaction, changes[0].table) == nil
}

// commitTable makes the changes in one table after a transaction has failed. What all share is
// made first; where that was not the reason, each attachment's rules are handled separately.
func (h *iptablesHost) commitTable(changes iptablesChangeList, table string, errs []error) {
	if h.makeShared(changes, table) && h.restore(&changes.transaction(table).Transaction) == nil {
		return
	}
	for _, change := range changes {
		if len(changes) > 1 && h.restore(&iptablesChangeList{change}.transaction(table).Transaction) == nil {
			continue
		}
		errs[change.owner] = errors.Join(errs[change.owner], h.commitSteps(change))
	}
}

// commitSteps makes one change with a process for each step.
func (h *iptablesHost) commitSteps(change iptablesChange) error {
	switch {
	case h.ctx.Err() != nil:
		return context.Cause(h.ctx)
	case change.remove:
		return h.removeSteps(change.iptablesRules)
	}
	return h.addSteps(change.iptablesRules)
}

// callers returns the chains of others that lead to the chain.
func (r *iptablesRules) callers() []string {
	return slices.DeleteFunc(chainsOf(r.rules), func(chain string) bool { return chain == r.chain })
}

// chainsOf returns the chains that the rules are in.
func chainsOf(rules []iptablesRule) []string {
	var chains []string
	for _, rule := range rules {
		if !slices.Contains(chains, rule.chain) {
			chains = append(chains, rule.chain)
		}
	}
	return chains
}
