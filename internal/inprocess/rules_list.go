// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"fmt"
	"slices"

	"github.com/coreos/go-iptables/iptables"
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

// ListRules returns the rules that a chain of plugins which repairs has left, and whether the host
// has them. It changes nothing on the host and takes no lock.
func ListRules(ctx context.Context, c *Changes) ([]Rule, error) {
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

func listIPTablesRules(ctx context.Context, family iptables.Protocol, c *Changes) ([]Rule, error) {
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
				list = append(list, Rule{programOf(family), r.table, rule.chain, line, host.has(r.table, rule.chain, []string{line})})
			}
		}
	}
	return list, nil
}

// programOf is the program of the rules of a family.
func programOf(family iptables.Protocol) string {
	if family == iptables.ProtocolIPv6 {
		return "ip6tables"
	}
	return "iptables"
}

func listNFTablesRules(ctx context.Context, c *Changes) ([]Rule, error) {
	if !hasNFTables([]*Changes{c}) {
		return nil, nil
	}
	socket, err := dialNFTables(ctx)
	if err != nil {
		return nil, err
	}
	defer socket.Close() //nolint:errcheck // read only
	listings := socket.listings()
	var list []Rule
	for _, r := range c.rules {
		if r.nftables == nil {
			continue
		}
		more, err := listings.rulesOf(r.nftables)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// rulesOf tells which rules of an attachment there are. Where their number is right, all are:
// programs of other versions express them otherwise.
func (l *nftablesListings) rulesOf(r *nftablesRules) ([]Rule, error) {
	wanted, owned := map[string]int{}, map[string][]listedRule{}
	for _, rule := range r.rules {
		wanted[rule.chain]++
	}
	for _, chain := range r.chains {
		listed, err := l.of(r.table, chain)
		if err != nil {
			return nil, err
		}
		owned[chain] = slices.DeleteFunc(slices.Clone(listed), func(rule listedRule) bool { return !r.owns(rule.comment()) })
	}
	var list []Rule
	for _, rule := range r.rules {
		same := func(listed listedRule) bool {
			return sameRules([]listedRule{listed}, []nftablesRule{rule}, r.table.family)
		}
		present := len(owned[rule.chain]) >= wanted[rule.chain] || slices.ContainsFunc(owned[rule.chain], same)
		list = append(list, Rule{"nft", r.table.familyName() + " " + r.table.name, rule.chain, rule.text, present})
	}
	return list, nil
}
