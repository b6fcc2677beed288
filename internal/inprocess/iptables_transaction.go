// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"bytes"
	"fmt"
	"strings"
)

// iptablesTransaction is the input of iptables-restore. The zero value is empty.
type iptablesTransaction struct {
	text bytes.Buffer
	err  error
}

// transaction returns the changes in the tables as one input of iptables-restore, optimistic
// in all: it fails if what is shared is missing, if a chain to add exists, and if a rule to
// remove is missing.
func (l iptablesChangeList) transaction(tables ...string) *iptablesTransaction {
	t := &iptablesTransaction{}
	for _, table := range tables {
		changes := l.in(table)
		if len(changes) == 0 {
			continue
		}
		t.begin(table)
		for _, change := range changes {
			switch {
			case change.remove:
				t.remove(change.iptablesRules)
			case change.exists:
				t.fail(fmt.Errorf("rules of %s exist already", change.address))
			default:
				t.add(change.iptablesRules, change.ready)
			}
		}
		t.commit()
	}
	return t
}

func (t *iptablesTransaction) begin(table string) { fmt.Fprintf(&t.text, "*%s\n", table) }

func (t *iptablesTransaction) commit() { t.text.WriteString("COMMIT\n") }

// fail keeps the first error.
func (t *iptablesTransaction) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// add adds the rules of an attachment, and asserts what is shared, unless that is ready.
func (t *iptablesTransaction) add(r *iptablesRules, ready bool) {
	if !ready {
		t.checkShared(r)
	}
	if r.chain != "" {
		t.line("-N", r.chain, nil)
	}
	t.addRules(r.rules)
}

// addGroup makes what is shared.
func (t *iptablesTransaction) addGroup(g iptablesGroup) {
	for _, chain := range g.chains {
		t.line("-N", chain, nil)
	}
	t.addRules(g.rules)
}

func (t *iptablesTransaction) addRules(rules []iptablesRule) {
	for _, rule := range rules {
		if rule.first {
			t.line("-I", rule.chain, rule.args)
		} else {
			t.line("-A", rule.chain, rule.args)
		}
	}
}

// check asserts that all rules exist.
func (t *iptablesTransaction) check(r *iptablesRules) {
	t.checkShared(r)
	for _, rule := range r.rules {
		t.line("-C", rule.chain, rule.args)
	}
}

func (t *iptablesTransaction) checkShared(r *iptablesRules) {
	for _, group := range r.shared {
		t.checkGroup(group)
	}
}

func (t *iptablesTransaction) checkGroup(g iptablesGroup) {
	for _, rule := range g.rules {
		t.line("-C", rule.chain, rule.args)
	}
}

// remove removes the rules of an attachment and its chain.
func (t *iptablesTransaction) remove(r *iptablesRules) {
	for _, rule := range r.rules {
		if rule.chain != r.chain {
			t.line("-D", rule.chain, rule.args)
		}
	}
	t.removeChain(r.chain)
}

// removeChain removes a chain that no rule leads to; an empty name is none.
func (t *iptablesTransaction) removeChain(chain string) {
	if chain != "" {
		t.line("-F", chain, nil)
		t.line("-X", chain, nil)
	}
}

func (t *iptablesTransaction) line(verb, chain string, args []string) {
	t.text.WriteString(verb)
	for _, arg := range append([]string{chain}, args...) {
		t.text.WriteByte(' ')
		t.text.WriteString(t.quote(arg))
	}
	t.text.WriteByte('\n')
}

// unreadable are the characters that iptables-restore cannot read in an argument.
const unreadable = "\n\r\x00"

// quote returns an argument as iptables-restore reads it. One that it cannot read makes the
// transaction fail.
func (t *iptablesTransaction) quote(arg string) string {
	if strings.ContainsAny(arg, unreadable) {
		t.fail(fmt.Errorf("iptables-restore cannot read the argument %q", arg))
	}
	if arg != "" && !strings.ContainsAny(arg, " \t\"\\'#") {
		return arg
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(arg) + `"`
}
