// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// Rule is a rule that an attachment has to have for itself.
type Rule struct {
	// Program is iptables, ip6tables or nft.
	Program string
	// Table has the family before the name for nft.
	Table, Chain string
	// Text is the rule without the chain, as the program prints it.
	Text string
	// Present is whether the host has it.
	Present bool
}

// listRules returns the rules that a chain of plugins which repairs has left, and whether the host
// has them. It changes nothing on the host and takes no lock.
func listRules(ctx context.Context, c *ruleSet) ([]Rule, error) {
	list, err := listNFTablesRules(ctx, c)
	for _, family := range iptablesFamilies {
		if err != nil {
			break
		}
		var more []Rule
		more, err = listIPTablesRules(ctx, family, c)
		list = append(list, more...)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return list, err
}

func listIPTablesRules(ctx context.Context, family netfilter.Family, c *ruleSet) ([]Rule, error) {
	var all []*iptablesRules
	for _, r := range c.rules {
		if r.iptables != nil && r.iptables.family == family {
			all = append(all, r.iptables)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	lines, err := canonical(ctx, c.iptables, family, all)
	if err != nil {
		return nil, fmt.Errorf("which rules it has to have is unknown: %w", err)
	}
	host, unlisted, err := listIPTables(ctx, c.iptables, family)
	if err != nil {
		return nil, err
	}
	if at := slices.IndexFunc(all, func(r *iptablesRules) bool { return slices.Contains(unlisted, r.table) }); at >= 0 {
		return nil, all[at].unlistedError()
	}
	var list []Rule
	for _, r := range all {
		for _, rule := range r.rules {
			for _, line := range lines.of(r.table, rule) {
				list = append(list, Rule{family.Program(), r.table, rule.chain, line, host.has(r.table, rule.chain, []string{line})})
			}
		}
	}
	return list, nil
}

func listNFTablesRules(ctx context.Context, c *ruleSet) ([]Rule, error) {
	if !hasNFTables([]*ruleSet{c}) {
		return nil, nil
	}
	socket, err := netfilter.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer socket.Close() //nolint:errcheck // read only
	listings := socket.Listings()
	var list []Rule
	for _, r := range c.rules {
		if r.nftables == nil {
			continue
		}
		more, err := r.nftables.list(listings)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// list tells which rules of an attachment there are. Where their number is right, all are:
// programs of other versions express them otherwise.
func (r *nftablesRules) list(l *netfilter.Listings) ([]Rule, error) {
	var list []Rule
	for _, rule := range r.rules {
		owned, lacks, err := r.listed(l, rule.Chain)
		if err != nil {
			return nil, err
		}
		same := func(listed netfilter.ListedRule) bool {
			return netfilter.SameRules([]netfilter.ListedRule{listed}, []netfilter.Rule{rule}, r.table.Family)
		}
		present := lacks <= 0 || slices.ContainsFunc(owned, same)
		list = append(list, Rule{"nft", string(r.table.Family) + " " + r.table.Name, rule.Chain, rule.Text, present})
	}
	return list, nil
}
