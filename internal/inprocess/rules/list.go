// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"context"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// Listed is a rule that an attachment has to have for itself.
type Listed struct {
	// Program is iptables, ip6tables or nft.
	Program string
	// Table has the family before the name for nft.
	Table, Chain string
	// Text is the rule without the chain, as the program prints it.
	Text string
	// Present is whether the host has it.
	Present bool
}

// List returns the rules that a chain of plugins which repairs has left, and whether the host
// has them. It changes nothing on the host and takes no lock.
func List(ctx context.Context, c *Set) ([]Listed, error) {
	list, err := listNFTablesRules(ctx, c)
	for _, family := range Families {
		if err != nil {
			break
		}
		var more []Listed
		more, err = listIPTablesRules(ctx, family, c)
		list = append(list, more...)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return list, err
}

func listIPTablesRules(ctx context.Context, family netfilter.Family, c *Set) ([]Listed, error) {
	var all []*IPTables
	for _, r := range c.iptables(c.Kind, family) {
		all = append(all, r.IPTables)
	}
	if len(all) == 0 {
		return nil, nil
	}
	lines, err := canonical(ctx, c.Kind, family, all)
	if err != nil {
		return nil, fmt.Errorf("which rules it has to have is unknown: %w", err)
	}
	host, unlisted, err := listIPTables(ctx, c.Kind, family)
	if err != nil {
		return nil, err
	}
	if at := slices.IndexFunc(all, func(r *IPTables) bool { return slices.Contains(unlisted, r.Table) }); at >= 0 {
		return nil, all[at].unlistedError()
	}
	var list []Listed
	for _, r := range all {
		for _, rule := range r.Rules {
			for _, line := range lines.of(r.Table, rule) {
				list = append(list, Listed{family.Program(), r.Table, rule.Chain, line, host.has(r.Table, rule.Chain, []string{line})})
			}
		}
	}
	return list, nil
}

func listNFTablesRules(ctx context.Context, c *Set) ([]Listed, error) {
	if !hasNFTables([]*Set{c}) {
		return nil, nil
	}
	socket, err := netfilter.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	listings := socket.Listings()
	var list []Listed
	for _, r := range c.Changes {
		if r.NFTables == nil {
			continue
		}
		more, err := r.NFTables.list(listings)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// list tells which rules of an attachment there are. Where their number is right, all are:
// programs of other versions express them otherwise. Those of a table that is dormant have no effect.
func (r *NFTables) list(l *netfilter.Listings) ([]Listed, error) {
	var list []Listed
	dormant, err := l.IsDormant(r.Table)
	if err != nil {
		return nil, err
	}
	for _, rule := range r.Rules {
		owned, lacks, err := r.Listed(l, rule.Chain)
		if err != nil {
			return nil, err
		}
		same := func(listed netfilter.ListedRule) bool {
			return netfilter.SameRules([]netfilter.ListedRule{listed}, []netfilter.Rule{rule}, r.Table.Family)
		}
		present := !dormant && (lacks <= 0 || slices.ContainsFunc(owned, same))
		list = append(list, Listed{"nft", string(r.Table.Family) + " " + r.Table.Name, rule.Chain, rule.Text, present})
	}
	return list, nil
}
