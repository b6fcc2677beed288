// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/coreos/go-iptables/iptables"
	"sigs.k8s.io/knftables"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// backend is one of the kernel's four places for iptables rules: a family, in
// nftables or in the legacy tables.
type backend struct {
	// name is that of the program, such as "ip6tables-nft".
	name   string
	family iptables.Protocol
	// names is the kernel's list of legacy tables in use; empty for nftables.
	names string
}

var backends = []backend{
	{"iptables-nft", iptables.ProtocolIPv4, ""},
	{"ip6tables-nft", iptables.ProtocolIPv6, ""},
	{"iptables-legacy", iptables.ProtocolIPv4, "/proc/thread-self/net/ip_tables_names"},
	{"ip6tables-legacy", iptables.ProtocolIPv6, "/proc/thread-self/net/ip6_tables_names"},
}

// onlyBackends are those of a distribution that has one kind of iptables.
var onlyBackends = []backend{{"iptables", iptables.ProtocolIPv4, ""}, {"ip6tables", iptables.ProtocolIPv6, ""}}

// installedBackends returns the backends that can be listed. Where a
// distribution has only one kind of iptables, it has no name of its own.
func installedBackends(p programs) []backend {
	present, _ := divided(p)
	return present
}

// divided returns the backends that can be listed, and those whose program is missing.
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
	if b.names == "" {
		return true, nil
	}
	names, err := p.legacyTables(b.names)
	if errors.Is(err, fs.ErrNotExist) { // the kernel has none
		return false, nil
	}
	return len(bytes.TrimSpace(names)) > 0, err
}

// unlisted has an error if the kernel has wanted chains that the program cannot list, for a reason.
func (b backend) unlisted(ctx context.Context, h *host, why string, wanted func(chain string) bool) error {
	family := knftables.IPv4Family
	if b.family == iptables.ProtocolIPv6 {
		family = knftables.IPv6Family
	}
	return unlisted(ctx, h, b.name, why, family, "", wanted)
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
func HasIptables() bool { return len(installedBackends(system{})) > 0 }

// Listings returns the rules of all installed backends. It makes no table that is missing. The
// error has those that cannot be listed, as far as the table filter is concerned.
func Listings(ctx context.Context) ([]Listing, error) {
	var all []Listing
	var errs []error
	for _, b := range installedBackends(system{}) {
		if has, err := b.hasRules(system{}); err != nil || !has {
			errs = append(errs, err)
			continue
		}
		text, err := system{}.run(ctx, nil, b.name+"-save")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if slices.Contains(netfilter.Unlisted(text), "filter") {
			errs = append(errs, fmt.Errorf("%s-save cannot show the table filter, as it has rules that were made with nft: move them to a table of their own", b.name))
			continue
		}
		all = append(all, Listing{b.name, b.family == iptables.ProtocolIPv6, text})
	}
	return all, errors.Join(errs...)
}

// scan lists the backend's objects.
func (b backend) scan(ctx context.Context, h *host, wanted func(chain string) bool) (scanResult, error) {
	var found scanResult
	if has, err := b.hasRules(h.programs); err != nil || !has {
		return found, err
	}
	text, err := h.programs.run(ctx, nil, b.name+"-save")
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

// remove removes the chains and rules of objects in one transaction. Where
// that fails, because the host has changed since the scan, each is removed by
// itself. The result has an error for each object that is still there.
func (b backend) remove(ctx context.Context, p programs, objects []Object) []error {
	errs := make([]error, len(objects))
	_, err := p.run(ctx, transaction(objects), b.name+"-restore", "--noflush", "--wait", "30")
	if err == nil {
		return errs
	}
	remover, openErr := p.iptables(b)
	for i, o := range objects {
		if openErr != nil {
			errs[i] = errors.Join(err, openErr)
			continue
		}
		errs[i] = o.chain.remove(remover)
	}
	return errs
}

// transaction is what iptables-restore gets: a part for each table, sorted.
func transaction(objects []Object) []byte {
	byTable := map[string][]*chain{}
	var tables []string
	for _, o := range objects {
		if byTable[o.chain.table] == nil {
			tables = append(tables, o.chain.table)
		}
		byTable[o.chain.table] = append(byTable[o.chain.table], o.chain)
	}
	slices.Sort(tables)
	var text bytes.Buffer
	for _, table := range tables {
		writeTable(&text, table, byTable[table])
	}
	return text.Bytes()
}

// writeTable removes chains of one table. Rules go in the order in which they
// were listed, so that each is found first in what is left of its chain. To
// declare a chain empties it, and makes it where it is gone already.
func writeTable(text *bytes.Buffer, table string, chains []*chain) {
	var rules []rule
	var declarations, removals strings.Builder
	for _, c := range chains {
		rules = append(rules, c.rules...)
		if c.name != "" {
			fmt.Fprintf(&declarations, ":%s - [0:0]\n", c.name)
			fmt.Fprintf(&removals, "-X %s\n", c.name)
		}
	}
	fmt.Fprintf(text, "*%s\n%s", table, declarations.String())
	slices.SortStableFunc(rules, func(a, b rule) int { return cmp.Compare(a.number, b.number) })
	for _, r := range rules {
		fmt.Fprintf(text, "-D%s\n", strings.TrimPrefix(r.line, "-A"))
	}
	fmt.Fprintf(text, "%sCOMMIT\n", removals.String())
}

// remove removes a chain and its rules with a process for each step.
func (c *chain) remove(remover ruleRemover) error {
	for _, r := range c.rules {
		if err := c.removeRule(remover, r); err != nil {
			return err
		}
	}
	if c.name == "" {
		return nil
	}
	exists, err := remover.ChainExists(c.table, c.name)
	if err != nil || !exists {
		return err
	}
	return ignoreGone(remover, c.table, remover.ClearAndDeleteChain(c.table, c.name), c.name)
}

// removeRule removes a rule that leads to the chain. Another process may remove the
// rule first, between the check and the deletion: a second attempt then finds none. It
// may remove the chain as well: iptables then reports the missing chain as an error.
func (c *chain) removeRule(remover ruleRemover, r rule) error {
	err := remover.DeleteIfExists(c.table, r.chain, r.words[2:]...)
	if err != nil {
		err = remover.DeleteIfExists(c.table, r.chain, r.words[2:]...)
	}
	if c.name == "" {
		return ignoreGone(remover, c.table, err, r.chain)
	}
	return ignoreGone(remover, c.table, err, r.chain, c.name)
}

// ignoreGone returns the error of a removal, or nil if one of the chains that the
// removed object needs does not exist.
func ignoreGone(remover ruleRemover, table string, err error, chains ...string) error {
	if err == nil {
		return nil
	}
	for _, name := range chains {
		if exists, listErr := remover.ChainExists(table, name); listErr == nil && !exists {
			return nil
		}
	}
	return err
}
