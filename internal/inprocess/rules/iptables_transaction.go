// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"fmt"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// iptablesTransaction is the input of iptables-restore for rules of attachments. The zero value is empty.
type iptablesTransaction struct{ netfilter.Transaction }

// transaction returns the changes in the tables as one input of iptables-restore, optimistic
// in all: it fails if what is shared is missing, if a chain to add exists, and if a rule to
// remove is missing.
func (l iptablesChangeList) transaction(tables ...string) *iptablesTransaction {
	t := &iptablesTransaction{}
	for _, table := range tables {
		lines := &iptablesTransaction{}
		for _, change := range l.in(table) {
			switch {
			case change.remove:
				lines.remove(change.IPTables)
			case change.exists:
				lines.Fail(fmt.Errorf("rules of %s exist already", change.Address))
			default:
				lines.add(change.IPTables, change.ready)
			}
		}
		t.Table(table, &lines.Transaction)
	}
	return t
}

// add adds the rules of an attachment, and asserts what is shared, unless that is ready.
func (t *iptablesTransaction) add(r *IPTables, ready bool) {
	if !ready {
		t.checkShared(r)
	}
	if r.Chain != "" {
		t.Line("-N", r.Chain)
	}
	t.addRules(r.Rules)
}

func (t *iptablesTransaction) addGroup(g Group) {
	for _, chain := range g.Chains {
		t.Line("-N", chain)
	}
	t.addRules(g.Rules)
}

func (t *iptablesTransaction) addRules(rules []Rule) {
	for _, rule := range rules {
		if rule.First {
			t.Line("-I", rule.Chain, rule.Args...)
		} else {
			t.Line("-A", rule.Chain, rule.Args...)
		}
	}
}

// check asserts that all rules exist.
func (t *iptablesTransaction) check(r *IPTables) {
	t.checkShared(r)
	for _, rule := range r.Rules {
		t.Line("-C", rule.Chain, rule.Args...)
	}
}

func (t *iptablesTransaction) checkShared(r *IPTables) {
	for _, group := range r.Shared {
		t.checkGroup(group)
	}
}

func (t *iptablesTransaction) checkGroup(g Group) {
	for _, rule := range g.Rules {
		t.Line("-C", rule.Chain, rule.Args...)
	}
}

// remove removes the rules of an attachment and its chain.
func (t *iptablesTransaction) remove(r *IPTables) {
	for _, rule := range r.Rules {
		if rule.Chain != r.Chain {
			t.Line("-D", rule.Chain, rule.Args...)
		}
	}
	t.removeChain(r.Chain)
}

// removeChain removes a chain that no rule leads to; an empty name is none.
func (t *iptablesTransaction) removeChain(chain string) {
	if chain != "" {
		t.Line("-F", chain)
		t.Line("-X", chain)
	}
}
