// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// IPTables are rules of one attachment in one table of one family.
type IPTables struct {
	Family netfilter.Family
	Table  string
	// Shared are what all attachments use. They are made where they are missing, and stay.
	Shared []Group
	// Chain is the one of the attachment alone; empty if it has none.
	Chain string
	// Comment is that of the rules in chains of others that lead to the chain: another program's rule may do so, too.
	Comment string
	// Rules are those of the attachment, in its chain and in chains of others.
	Rules []Rule
	// Address is what rules in chains of others name if there is no chain: an earlier
	// attachment with the address may have left them.
	Address net.IP
}

// Group are chains and rules that all attachments use, in the order in which they are
// made.
type Group struct {
	Chains []string
	Rules  []Rule
}

// Rule is a rule in a chain.
type Rule struct {
	Chain string
	Args  []string
	// First is whether it is inserted before the rules that the chain has.
	First bool
	// Seen recognizes the rule as iptables-nft has made it; nil if only iptables can tell.
	Seen func(netfilter.ListedRule) bool
}

// Add adds a rule unless there is the same: that of the first of two addresses stays where
// it is. iptables does not distinguish "TCP" and "tcp".
func (r *IPTables) Add(rule Rule) {
	same := func(other Rule) bool {
		return other.Chain == rule.Chain && slices.EqualFunc(other.Args, rule.Args, strings.EqualFold)
	}
	if !slices.ContainsFunc(r.Rules, same) {
		r.Rules = append(r.Rules, rule)
	}
}

// Families are both, in the order in which they are committed.
var Families = []netfilter.Family{netfilter.IPv4, netfilter.IPv6}

// iptablesTables are the tables that the plugins use, in the order of transactions.
var iptablesTables = []string{"filter", "nat"}

// iptablesChange is what one attachment adds or removes.
type iptablesChange struct {
	*IPTables

	remove bool
	// owner is the index of the attachment's chain of plugins.
	owner int
	// exists is whether there may be rules with the address already, or other changes add them.
	exists bool
	// ready is whether all that is shared is known to exist.
	ready bool
}

type iptablesChangeList []iptablesChange

func (l iptablesChangeList) in(table string) iptablesChangeList {
	return slices.DeleteFunc(slices.Clone(l), func(c iptablesChange) bool { return c.Table != table })
}

// adds tells whether rules with the address of a change are among those to add: a chain may have
// the firewall plugin twice, and each rule is made once.
func (l iptablesChangeList) adds(change iptablesChange) bool {
	return slices.ContainsFunc(l, func(c iptablesChange) bool {
		return !c.remove && c.Table == change.Table && c.Address.Equal(change.Address)
	})
}

// commit commits the rules of all chains, and joins the errors of each. All tables are one
// call of iptables-restore, which commits one after another.
func (h *iptablesHost) commit(all []*Set, errs []error) {
	changes := h.changes(all)
	if len(changes) > 0 {
		changes = h.removeDirectly(changes)
	}
	if len(changes) == 0 || h.restore(&changes.transaction(iptablesTables...).Transaction) == nil {
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
func (h *iptablesHost) changes(all []*Set) iptablesChangeList {
	var changes iptablesChangeList
	for i, c := range all {
		for _, r := range c.iptables(h.kind, h.family) {
			changes = append(changes, iptablesChange{IPTables: r.IPTables, remove: r.Remove, owner: i})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	h.identify()
	var needed iptablesChangeList
	for _, change := range changes {
		change.exists = change.Address != nil && (needed.adds(change) || h.names(change.IPTables))
		if change.remove && (h.lacks(change.Table, change.Chain) || change.Address != nil && (!change.exists || h.missing && h.lacks(change.Table, chainsOf(change.Rules)[0]))) {
			continue // without the program, nothing can be said of the rules, but there is no chain that has any
		}
		if !change.remove {
			change.ready = h.hasShared(change.IPTables)
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
		t.check(change.IPTables)
	}
	return h.restoreTable(&t.Transaction, changes[0].Table) == nil
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
		steps := h.addSteps // a process for each
		if change.remove {
			steps = h.removeSteps
		}
		err := context.Cause(h.ctx)
		if err == nil {
			err = steps(change.IPTables)
		}
		errs[change.owner] = errors.Join(errs[change.owner], err)
	}
}

// callers returns the chains of others that lead to the chain.
func (r *IPTables) callers() []string {
	return slices.DeleteFunc(chainsOf(r.Rules), func(chain string) bool { return chain == r.Chain })
}

func chainsOf(rules []Rule) []string {
	var chains []string
	for _, rule := range rules {
		if !slices.Contains(chains, rule.Chain) {
			chains = append(chains, rule.Chain)
		}
	}
	return chains
}
