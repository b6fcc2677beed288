// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Table is a table that all attachments share. It is made where it is missing, and
// stays.
type Table struct {
	Family        nftables.TableFamily
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

// Chain is a chain that all attachments share.
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

var families = map[string]nftables.TableFamily{
	"ip": nftables.TableFamilyIPv4, "ip6": nftables.TableFamilyIPv6, "inet": nftables.TableFamilyINet, "bridge": nftables.TableFamilyBridge,
}

// NamedTable returns a table without chains. The family is "ip", "ip6", "inet" or "bridge".
func NamedTable(family, name string) *Table { return &Table{Family: families[family], Name: name} }

// key identifies the table of this network namespace.
func (t *Table) key() string { return string(rune(t.Family)) + t.Name }

// FamilyName is what nft calls the family of the table.
func (t *Table) FamilyName() string {
	switch t.Family {
	case nftables.TableFamilyINet:
		return "inet"
	case nftables.TableFamilyIPv6:
		return "ip6"
	}
	return "ip"
}
