// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

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
				lines.remove(change.iptablesRules)
			case change.exists:
				lines.Fail(fmt.Errorf("rules of %s exist already", change.address))
			default:
				lines.add(change.iptablesRules, change.ready)
			}
		}
		t.Table(table, &lines.Transaction)
	}
	return t
}

// add adds the rules of an attachment, and asserts what is shared, unless that is ready.
func (t *iptablesTransaction) add(r *iptablesRules, ready bool) {
	if !ready {
		t.checkShared(r)
	}
	if r.chain != "" {
		t.Line("-N", r.chain)
	}
	t.addRules(r.rules)
}

// addGroup makes what is shared.
func (t *iptablesTransaction) addGroup(g iptablesGroup) {
	for _, chain := range g.chains {
		t.Line("-N", chain)
	}
	t.addRules(g.rules)
}

func (t *iptablesTransaction) addRules(rules []iptablesRule) {
	for _, rule := range rules {
		if rule.first {
			t.Line("-I", rule.chain, rule.args...)
		} else {
			t.Line("-A", rule.chain, rule.args...)
		}
	}
}

// check asserts that all rules exist.
func (t *iptablesTransaction) check(r *iptablesRules) {
	t.checkShared(r)
	for _, rule := range r.rules {
		t.Line("-C", rule.chain, rule.args...)
	}
}

func (t *iptablesTransaction) checkShared(r *iptablesRules) {
	for _, group := range r.shared {
		t.checkGroup(group)
	}
}

func (t *iptablesTransaction) checkGroup(g iptablesGroup) {
	for _, rule := range g.rules {
		t.Line("-C", rule.chain, rule.args...)
	}
}

// remove removes the rules of an attachment and its chain.
func (t *iptablesTransaction) remove(r *iptablesRules) {
	for _, rule := range r.rules {
		if rule.chain != r.chain {
			t.Line("-D", rule.chain, rule.args...)
		}
	}
	t.removeChain(r.chain)
}

// removeChain removes a chain that no rule leads to; an empty name is none.
func (t *iptablesTransaction) removeChain(chain string) {
	if chain != "" {
		t.Line("-F", chain)
		t.Line("-X", chain)
	}
}
