// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// repairAttempts is how often rules are listed and added: another process may have made what
// all attachments share meanwhile.
const repairAttempts = 3

// ownedIPTables are rules of a chain of plugins.
type ownedIPTables struct {
	*IPTables

	owner *Set
}

// iptables adds what is missing of a kind and a family: of all attachments together, else of each alone.
func (m *missingRules) iptables(kind Kind, family netfilter.Family) error {
	var all []ownedIPTables
	var plain []*IPTables
	for _, c := range m.all {
		for _, r := range c.iptables(kind, family) {
			all, plain = append(all, ownedIPTables{r.IPTables, c}), append(plain, r.IPTables)
		}
	}
	if len(all) == 0 {
		return nil
	}
	lines, err := canonical(m.ctx, kind, family, plain)
	if err != nil {
		return fmt.Errorf("which rules are missing is unknown: %w", err)
	}
	for range repairAttempts {
		if err = m.addMissing(lines, all); err == nil || m.ctx.Err() != nil {
			return err
		}
	}
	for _, one := range all {
		if err := m.addMissing(lines, []ownedIPTables{one}); err != nil {
			one.owner.Repair.Fail(err)
		}
	}
	return nil
}

func (m *missingRules) addMissing(lines *canonicalRules, all []ownedIPTables) error {
	host, unlisted, err := listIPTables(m.ctx, lines.kind, lines.family)
	if err != nil {
		return err
	}
	t := &netfilter.Transaction{}
	for _, table := range iptablesTables {
		a := &iptablesAddition{table: table, lines: lines, host: host, done: map[string]bool{}}
		for _, r := range all {
			if r.Table != table {
				continue
			}
			if slices.Contains(unlisted, table) {
				// Another program has put into it what iptables does not know: each rule is asked for. Which are missing is not told,
				// so none are added.
				if err := r.check(m.ctx, r.owner.Kind); err != nil {
					r.owner.Repair.Fail(fmt.Errorf("%w, and %w", r.unlistedError(), err))
				}
				continue
			}
			m.lack(r.owner, a.missing(r.IPTables)...)
			if !r.owner.Repair.DryRun {
				a.add(r.IPTables)
			}
		}
		t.Table(table, &a.chains, &a.rules)
	}
	return (&iptablesProgram{ctx: m.ctx, holds: m.holds, kind: lines.kind, family: lines.family}).restore(t)
}

// check looks for all rules of the attachment, in one process if they exist.
func (r *IPTables) check(ctx context.Context, kind Kind) error {
	p, t := &iptablesProgram{ctx: ctx, kind: kind, family: r.Family}, &iptablesTransaction{}
	t.check(r)
	if p.restoreTable(&t.Transaction, r.Table) == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.Chain != "" { // each tells what is missing
		exists, err := p.hasChain(r.Table, r.Chain)
		if err != nil {
			return err
		}
		if !exists {
			return fmt.Errorf("chain %s not found in iptables table %s", r.Chain, r.Table)
		}
	}
	for _, rule := range r.Rules {
		if exists, err := p.hasRule(r.Table, rule); err != nil || !exists {
			return fmt.Errorf("rule %s in chain %s not found in table %s", rule.Args, rule.Chain, r.Table)
		}
	}
	return nil
}

func (r *IPTables) unlistedError() error {
	return fmt.Errorf("%s-save cannot list table %s: another program has put rules into it that iptables does not know (nft list ruleset)", r.Family.Program(), r.Table)
}

type iptablesAddition struct {
	table string
	lines *canonicalRules
	host  iptablesListing
	// chains and rules are lines of iptables-restore: all chains are made before any rule.
	chains, rules netfilter.Transaction
	// done are those lines: attachments share some.
	done map[string]bool
}

// once writes a line unless it is written already.
func (a *iptablesAddition) once(t *netfilter.Transaction, verb, chain string, args []string) {
	key := strings.Join(append([]string{verb, chain}, args...), "\x00")
	if !a.done[key] {
		a.done[key] = true
		t.Line(verb, chain, args...)
	}
}

// missing tells in words what the host lacks of the rules.
func (a *iptablesAddition) missing(r *IPTables) []string {
	var missing []string
	for _, group := range r.Shared {
		for _, chain := range group.Chains {
			if !a.host.hasChain(a.table, chain) {
				missing = append(missing, a.chainText(chain))
			}
		}
		missing = append(missing, a.missingOf(group.Rules)...)
	}
	own, others := r.split()
	switch {
	case r.Chain != "" && !a.host.hasChain(a.table, r.Chain):
		missing = append(missing, a.chainText(r.Chain))
	case !a.complete(r.Chain, own):
		missing = append(missing, "rules in "+a.chainText(r.Chain))
	}
	return append(missing, a.missingOf(others)...)
}

func (a *iptablesAddition) missingOf(rules []Rule) []string {
	var missing []string
	for _, rule := range rules {
		if lines := a.lines.of(a.table, rule); !a.host.has(a.table, rule.Chain, lines) {
			missing = append(missing, fmt.Sprintf("rule in %s: %s", a.chainText(rule.Chain), strings.Join(lines, "; ")))
		}
	}
	return missing
}

func (a *iptablesAddition) chainText(chain string) string {
	return fmt.Sprintf("chain %s of table %s of %s", chain, a.table, a.lines.family.Program())
}

// split returns the rules of the attachment's own chain, and those in chains of others.
func (r *IPTables) split() (own, others []Rule) {
	for _, rule := range r.Rules {
		if rule.Chain == r.Chain {
			own = append(own, rule)
		} else {
			others = append(others, rule)
		}
	}
	return own, others
}

// complete tells whether the attachment's own chain has its rules in their order.
func (a *iptablesAddition) complete(chain string, own []Rule) bool {
	var lines []string
	for _, rule := range own {
		lines = append(lines, a.lines.of(a.table, rule)...)
	}
	return a.host.inOrder(a.table, chain, lines)
}

// add writes the lines that make what is missing of the rules.
func (a *iptablesAddition) add(r *IPTables) {
	for _, group := range r.Shared {
		for _, chain := range group.Chains {
			a.addChain(chain)
		}
		a.addRules(group.Rules)
	}
	own, others := r.split()
	if r.Chain != "" {
		a.addChain(r.Chain)
	}
	if !a.complete(r.Chain, own) {
		if a.host.hasChain(a.table, r.Chain) {
			a.once(&a.chains, "-F", r.Chain, nil)
		}
		for _, rule := range own {
			a.once(&a.rules, "-A", rule.Chain, rule.Args)
		}
	}
	a.addRules(others)
}

func (a *iptablesAddition) addChain(chain string) {
	if !a.host.hasChain(a.table, chain) {
		a.once(&a.chains, "-N", chain, nil)
	}
}

func (a *iptablesAddition) addRules(rules []Rule) {
	for _, rule := range rules {
		if a.host.has(a.table, rule.Chain, a.lines.of(a.table, rule)) {
			continue
		}
		verb := "-A"
		if rule.First {
			verb = "-I"
		}
		a.once(&a.rules, verb, rule.Chain, rule.Args)
	}
}
