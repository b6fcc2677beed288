// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/state"
)

// backend is one of the kernel's four places for iptables rules: a family, in
// nftables or in the legacy tables.
type backend struct {
	// name is that of the program, such as "ip6tables-nft".
	name     string
	family   netfilter.Family
	isLegacy bool
}

var backends = []backend{
	{"iptables-nft", netfilter.IPv4, false},
	{"ip6tables-nft", netfilter.IPv6, false},
	{"iptables-legacy", netfilter.IPv4, true},
	{"ip6tables-legacy", netfilter.IPv6, true},
}

// onlyBackends are those of a distribution that has one kind of iptables.
var onlyBackends = []backend{{"iptables", netfilter.IPv4, false}, {"ip6tables", netfilter.IPv6, false}}

// divided returns the backends that can be listed, and those whose program is missing. Where a
// distribution has only one kind of iptables, it has no name of its own.
func divided(p programs) (present, missing []backend) {
	for _, list := range [][]backend{backends, onlyBackends} {
		present, missing = nil, nil
		for _, b := range list {
			if p.installed(b.name) {
				present = append(present, b)
			} else {
				missing = append(missing, b)
			}
		}
		if len(present) > 0 {
			return present, missing
		}
	}
	return nil, backends
}

// hasRules tells whether the backend can hold rules. To list legacy tables that
// do not exist would create them.
func (b backend) hasRules(p programs) (bool, error) {
	if !b.isLegacy {
		return true, nil
	}
	tables, err := p.legacyTables(b.family)
	return len(tables) > 0, err
}

// Listing is the output of iptables-save for one of the kernel's places for rules.
type Listing struct {
	// Program is that of the backend, such as "ip6tables-nft".
	Program string
	// IPv6 is whether the rules are for IPv6.
	IPv6 bool
	Text string
}

// HasIptables is whether a program of iptables is installed.
func HasIptables() bool {
	present, _ := divided(system{})
	return len(present) > 0
}

// Listings returns the rules of all installed backends. It makes no table that is missing. The
// error has those that cannot be listed, as far as the table filter is concerned.
func Listings(ctx context.Context) ([]Listing, error) { return listings(ctx, system{}) }

func listings(ctx context.Context, p programs) ([]Listing, error) {
	var all []Listing
	var errs []error
	present, _ := divided(p)
	for _, b := range present {
		if has, err := b.hasRules(p); err != nil || !has {
			errs = append(errs, err)
			continue
		}
		text, err := p.run(ctx, "", b.name+"-save")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if slices.Contains(netfilter.Unlisted(text), "filter") {
			errs = append(errs, fmt.Errorf("%s-save cannot show the table filter, as it has rules that were made with nft: move them to a table of their own", b.name))
			continue
		}
		all = append(all, Listing{b.name, b.family == netfilter.IPv6, text})
	}
	return all, errors.Join(errs...)
}

func (b backend) scan(ctx context.Context, h *host, wanted func(chain string) bool) (scanResult, error) {
	var found scanResult
	if has, err := b.hasRules(h.programs); err != nil || !has {
		return found, err
	}
	text, err := h.programs.run(ctx, "", b.name+"-save")
	if err != nil {
		return found, err
	}
	if len(netfilter.Unlisted(text)) > 0 {
		if err := b.unlisted(ctx, h, cannotShow, wanted); err != nil {
			return found, err
		}
	}
	rules := parseRules(text, h.catalog.mentions())
	for _, p := range rules.problems {
		found.problem(b.name, p)
	}
	for l := range h.catalog.leaks() {
		found.Objects = append(found.Objects, l.objects(b, rules)...)
	}
	return found, nil
}

// removalAttempts is how often what is still there is listed and removed: another process may be removing the same.
const removalAttempts = 3

// remove removes the chains and rules of objects in one transaction. Where
// that fails, because the host has changed since the scan, what is still listed of each is
// removed by itself. The result has an error for each object that is still there.
func (b backend) remove(ctx context.Context, p programs, objects []Object) []error {
	errs := make([]error, len(objects))
	err := transaction(objects).Restore(ctx, p.run, b.name)
	for attempt := 0; err != nil && attempt < removalAttempts; attempt++ {
		text, failed := p.run(ctx, "", b.name+"-save")
		for i, o := range objects {
			if errs[i] = failed; failed == nil {
				errs[i] = transaction([]Object{{chain: o.chain.listed(text)}}).Restore(ctx, p.run, b.name)
			}
		}
		err = errors.Join(errs...)
	}
	return errs
}

// listed returns what a listing still has of the chain: all if it cannot show the table.
func (c *chain) listed(text string) *chain {
	if slices.Contains(netfilter.Unlisted(text), c.table) {
		return c
	}
	left := &chain{table: c.table}
	for line := range netfilter.Lines(text) {
		switch {
		case line.Table != c.table:
		case line.Policy != "" && line.Chain == c.name:
			left.name = c.name
		case slices.ContainsFunc(c.rules, func(r rule) bool { return r.line == line.Rule }):
			left.rules = append(left.rules, rule{line: line.Rule, number: len(left.rules)})
		}
	}
	return left
}

// transaction is what iptables-restore gets: a part for each table, sorted.
func transaction(objects []Object) *netfilter.Transaction {
	byTable := map[string][]*chain{}
	var tables []string
	for _, o := range objects {
		if byTable[o.chain.table] == nil {
			tables = append(tables, o.chain.table)
		}
		byTable[o.chain.table] = append(byTable[o.chain.table], o.chain)
	}
	slices.Sort(tables)
	t := &netfilter.Transaction{}
	for _, table := range tables {
		t.Table(table, linesOf(byTable[table])...)
	}
	return t
}

// linesOf removes chains of one table. Rules go in the order in which they
// were listed, so that each is found first in what is left of its chain. To
// declare a chain empties it, and makes it where it is gone already.
func linesOf(chains []*chain) []*netfilter.Transaction {
	var rules []rule
	var declared, deleted, removed netfilter.Transaction
	for _, c := range chains {
		rules = append(rules, c.rules...)
		if c.name != "" {
			declared.Empty(c.name)
			removed.Line("-X", c.name)
		}
	}
	slices.SortStableFunc(rules, func(a, b rule) int { return cmp.Compare(a.number, b.number) })
	for _, r := range rules {
		deleted.Delete(r.line)
	}
	return []*netfilter.Transaction{&declared, &deleted, &removed}
}

// Why a program cannot list.
const (
	notInstalled = "is not installed (install it, and repeat this)"
	cannotShow   = "cannot show a table in which another program has rules that iptables does not know (move them to a table of their own, and repeat this)"
)

// unlisted has an error if the kernel has wanted chains that the program cannot list, for a reason.
func (b backend) unlisted(ctx context.Context, h *host, why string, wanted func(chain string) bool) error {
	list := h.programs.nftChains
	if b.isLegacy {
		list = h.programs.legacyChains
	}
	chains, err := list(ctx, b.family)
	if err != nil {
		return fmt.Errorf("%s %s: %w", b.name, why, err)
	}
	chains = slices.DeleteFunc(chains, func(name string) bool { return !wanted(name) })
	if len(chains) == 0 {
		return nil
	}
	slices.Sort(chains)
	// What of them is left by whom is unknown.
	return fmt.Errorf("%s %s, and the kernel has chains of CNI plugins: %s", b.name, why, strings.Join(slices.Compact(chains), ", "))
}

func (c catalog) chainsOf(a state.Attachment) []string {
	var chains []string
	for _, plugin := range pluginTypes(a) {
		for _, l := range c.find(plugin).leaves {
			for _, p := range l.chains {
				chains = append(chains, p.name.of(ownerOf(a.Network, a.ContainerID, a.Interface)))
			}
			for _, p := range l.rules {
				chains = append(chains, p.chain)
			}
		}
	}
	return chains
}

// ofUnknown tells whether a chain is one attachment's, and of none of the known owners.
func (c catalog) ofUnknown(known []Owner) func(chain string) bool {
	ofKnown := map[string]bool{}
	for l := range c.leaks() {
		for _, p := range l.chains {
			for _, o := range known {
				ofKnown[p.name.of(o)] = true
			}
		}
	}
	return func(chain string) bool {
		for l := range c.leaks() {
			if slices.ContainsFunc(l.chains, func(p chainPattern) bool { return p.name.matches(chain) }) {
				return !ofKnown[chain]
			}
		}
		return false
	}
}

func (system) legacyChains(_ context.Context, family netfilter.Family) ([]string, error) {
	tables, err := netfilter.LegacyTables(family)
	if err != nil {
		return nil, err
	}
	var words []string
	for _, table := range tables {
		entries, err := netfilter.ReadLegacy(family, table)
		if err != nil {
			return nil, err
		}
		words = append(words, strings.Split(string(entries), "\x00")...)
	}
	return words, nil
}

func (system) nftChains(ctx context.Context, family netfilter.Family) ([]string, error) {
	return netfilter.FilledChains(ctx, family)
}
