// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
)

// canonicalRules are the lines that iptables-save prints for rules. iptables itself tells:
// each rule is added to a chain of its own in an empty network namespace. Only so is a listing
// of thousands of rules compared without a process for each, whatever the version and backend.
type canonicalRules struct {
	kind   Kind
	family netfilter.Family
	// chains have the number of the chain that a rule of a table is in.
	chains  map[string]int
	listing iptablesListing
}

var iptablesTargets = []string{"ACCEPT", "DROP", "RETURN", "MASQUERADE", "SNAT", "DNAT", "MARK"}

func canonical(ctx context.Context, kind Kind, family netfilter.Family, all []*IPTables) (*canonicalRules, error) {
	c := &canonicalRules{kind: kind, family: family, chains: map[string]int{}}
	text := c.text(all)
	empty, err := netns.New()
	if err != nil {
		return nil, err
	}
	defer empty.Close() //nolint:errcheck // it ends with that
	err = empty.Do(func() error {
		if err := (&iptablesProgram{ctx: ctx, kind: kind, family: family}).restore(text); err != nil {
			return err
		}
		c.listing, _, err = listIPTables(ctx, kind, family)
		return err
	})
	return c, err
}

func (c *canonicalRules) text(all []*IPTables) *netfilter.Transaction {
	t := &netfilter.Transaction{}
	for _, table := range iptablesTables {
		lines, targets := &netfilter.Transaction{}, map[string]bool{}
		for _, r := range all {
			if r.Table != table {
				continue
			}
			for _, group := range slices.Concat(r.Shared, []Group{{Rules: r.Rules}}) {
				for _, rule := range group.Rules {
					c.add(lines, table, rule, targets)
				}
			}
		}
		t.Table(table, lines)
	}
	return t
}

func (c *canonicalRules) add(t *netfilter.Transaction, table string, rule Rule, targets map[string]bool) {
	key := ruleKey(table, rule)
	if _, done := c.chains[key]; done {
		return
	}
	c.chains[key] = len(c.chains)
	if target := netfilter.Option(rule.Args, "-j"); target != "" && !targets[target] && !slices.Contains(iptablesTargets, target) {
		targets[target] = true
		t.Line("-N", target)
	}
	t.Line("-N", canonicalChain(c.chains[key]))
	t.Line("-A", canonicalChain(c.chains[key]), rule.Args...)
}

func canonicalChain(number int) string { return fmt.Sprintf("RULE-%d", number) }

// ruleKey identifies a rule whatever its chain.
func ruleKey(table string, rule Rule) string {
	return table + "\x00" + strings.Join(rule.Args, "\x00")
}

func (c *canonicalRules) of(table string, rule Rule) []string {
	return c.listing[table][canonicalChain(c.chains[ruleKey(table, rule)])]
}

// iptablesListing has the rules of chains as iptables-save prints them, without the name of
// the chain, by table and chain.
type iptablesListing map[string]map[string][]string

// listIPTables lists all rules of a family in this network namespace, but for the tables that iptables cannot
// list, which it names.
func listIPTables(ctx context.Context, kind Kind, family netfilter.Family) (listing iptablesListing, unlisted []string, err error) {
	text, err := netfilter.Runner{}.Run(ctx, "", kind.program(family, "-save"))
	return listed(text), netfilter.Unlisted(text), err
}

func listed(text string) iptablesListing {
	l := iptablesListing{}
	for line := range netfilter.Lines(text) {
		if l[line.Table] == nil {
			l[line.Table] = map[string][]string{}
		}
		chains := l[line.Table]
		if line.Policy != "" {
			chains[line.Chain] = []string{}
			continue
		}
		chains[line.Chain] = append(chains[line.Chain], strings.TrimPrefix(line.Rule, "-A "+line.Chain+" "))
	}
	return l
}

func (l iptablesListing) hasChain(table, chain string) bool { return l[table][chain] != nil }

func (l iptablesListing) has(table, chain string, lines []string) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return !slices.Contains(l[table][chain], line) })
}

// inOrder tells whether a chain has all of the lines in their order, perhaps with others.
func (l iptablesListing) inOrder(table, chain string, lines []string) bool {
	for _, present := range l[table][chain] {
		if len(lines) > 0 && present == lines[0] {
			lines = lines[1:]
		}
	}
	return len(lines) == 0
}
