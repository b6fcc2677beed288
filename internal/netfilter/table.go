// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Table is a table of nftables, with what it has to have.
type Table struct {
	Family        Family
	Name, Comment string
	Sets          []Set
	Chains        []Chain
}

// Set is a set of addresses, which does not change.
type Set struct {
	Name string
	// Length is that of each element, in bytes.
	Length   int
	Elements [][]byte
}

// Chain is one of a table.
type Chain struct {
	Name, Comment string
	// Hook is where packets enter the chain; nil if only other chains lead to it.
	Hook *Hook
	// Rules are all that the chain has to have; nil if attachments add theirs.
	Rules []Rule
}

// Hook is the hook of a base chain of type nat, or of type filter.
type Hook struct {
	Number   *nftables.ChainHook
	Priority *nftables.ChainPriority
	Filters  bool
}

// Rule is a rule in a chain.
type Rule struct {
	Chain   string
	Exprs   []expr.Any
	Comment string
	// Text is the rule in the language of nft. Empty: all attachments share it.
	Text string
}

// chain are the attributes of a rule, or of all rules in a chain.
func (t *Table) chain(name string, more ...netlink.Attribute) []netlink.Attribute {
	return append([]netlink.Attribute{text(unix.NFTA_RULE_TABLE, t.Name), text(unix.NFTA_RULE_CHAIN, name)}, more...)
}

// key identifies the table of this network namespace.
func (t *Table) key() string { return string(t.Family) + " " + t.Name }
