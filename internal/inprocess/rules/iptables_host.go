// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"bytes"
	"cmp"
	"os/exec"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// iptablesHost is iptables of one family on this host, with what the kernel tells of its rules.
type iptablesHost struct {
	iptablesProgram

	// socket is nil if there is no connection.
	socket *netfilter.Socket
	// nft and legacy are whether iptables may be that program. Both: it is unknown, or there
	// is none.
	nft, legacy bool
	// missing is whether there is no program.
	missing bool
}

// identify finds out which program iptables is.
func (h *iptablesHost) identify() {
	current, installed := hostKind()
	_, err := exec.LookPath(h.kind.programBeside(current, installed, h.family, "-restore"))
	h.missing = err != nil
	kind := cmp.Or(h.kind, current)
	h.nft, h.legacy = kind != KindLegacy, kind != KindNFT
}

// lacks tells whether it is certain that a table has no such chain.
func (h *iptablesHost) lacks(table, chain string) bool {
	return chain != "" && (!h.nft || h.lacksChain(table, chain)) && (!h.legacy || h.lacksLegacyChain(table, chain))
}

func (h *iptablesHost) lacksChain(table, chain string) bool {
	if h.socket == nil {
		return false
	}
	exists, err := h.socket.HasChain(h.nftablesTable(table), chain)
	return err == nil && !exists
}

// lacksLegacyChain tells whether it is certain that iptables-legacy has no such chain. Only a host
// without the program has the kernel list the table: the program is asked otherwise.
func (h *iptablesHost) lacksLegacyChain(table, chain string) bool {
	tables, err := netfilter.LegacyTables(h.family)
	if err == nil && !slices.Contains(tables, table) {
		return true
	}
	if !h.missing {
		return false
	}
	entries, err := netfilter.ReadLegacy(h.family, table)
	return err == nil && !bytes.Contains(entries, append([]byte(chain), 0))
}

// names tells whether rules that are to be added may exist.
func (h *iptablesHost) names(r *IPTables) bool {
	if h.legacy || h.socket == nil {
		return h.namesSlowly(r)
	}
	table := h.nftablesTable(r.Table)
	for _, chain := range chainsOf(r.Rules) {
		rules, err := h.socket.List(table, chain)
		if err != nil || slices.ContainsFunc(rules, netfilter.Containing(netfilter.IPBytes(r.Address))) {
			return true
		}
	}
	return false
}

func (h *iptablesHost) nftablesTable(name string) *netfilter.Table {
	return &netfilter.Table{Family: h.family, Name: name}
}

// namesSlowly asks iptables for the rules.
func (h *iptablesHost) namesSlowly(r *IPTables) bool {
	for _, chain := range chainsOf(r.Rules) {
		isNamed := func(rule string) bool { return strings.Contains(rule, " "+r.Address.String()+"/") }
		if h.missing || slices.ContainsFunc(h.rulesIn(r.Table, chain), isNamed) {
			return true
		}
	}
	return false
}
