// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"net"

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

// Set is a set with all that is in it.
type Set struct {
	KeySet
	Elements []Element
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

// Family is what nft calls a family of rules.
type Family string

// Families of nftables. iptables has the first two.
const (
	IPv4   Family = "ip"
	IPv6   Family = "ip6"
	INet   Family = "inet"
	Bridge Family = "bridge"
)

// FamilyOf returns that of an address.
func FamilyOf(ip net.IP) Family {
	if ip.To4() != nil {
		return IPv4
	}
	return IPv6
}

// Program is that of iptables for the family.
func (f Family) Program() string {
	if f == IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

var numbers = map[Family]nftables.TableFamily{
	IPv4: nftables.TableFamilyIPv4, IPv6: nftables.TableFamilyIPv6, INet: nftables.TableFamilyINet, Bridge: nftables.TableFamilyBridge,
}
