// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"context"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

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
