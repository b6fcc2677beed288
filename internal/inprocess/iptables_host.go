// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/coreos/go-iptables/iptables"
	"github.com/google/nftables"
)

// iptablesHost is iptables of one family on this host.
type iptablesHost struct {
	ctx context.Context
	// holds are inherited by programs.
	holds  []*os.File
	family iptables.Protocol
	// kind is which program has made the rules. Empty: that of the host.
	kind IPTables
	// socket is nil if there is no connection.
	socket *nftablesSocket
	// nft and legacy are whether iptables may be that program. Both: it is unknown, or there
	// is none.
	nft, legacy bool
	// missing is whether there is no program.
	missing bool
}

// identify finds out which program iptables is.
func (h *iptablesHost) identify() {
	_, err := exec.LookPath(h.kind.program(h.family, "-restore"))
	h.missing = err != nil
	kind := cmp.Or(h.kind, CurrentIPTables())
	h.nft, h.legacy = kind != IPTablesLegacy, kind != IPTablesNFT
}

// lacks tells whether it is certain that a table has no such chain.
func (h *iptablesHost) lacks(table, chain string) bool {
	return chain != "" && (!h.nft || h.lacksChain(table, chain)) && (!h.legacy || h.lacksLegacyChain(table, chain))
}

func (h *iptablesHost) lacksChain(table, chain string) bool {
	if h.socket == nil {
		return false
	}
	exists, err := h.socket.hasChain(h.nftablesTable(table), chain)
	return err == nil && !exists
}

// names tells whether rules that are to be added may exist.
func (h *iptablesHost) names(r *iptablesRules) bool {
	if h.legacy || h.socket == nil {
		return h.namesSlowly(r)
	}
	table := h.nftablesTable(r.table)
	for _, chain := range chainsOf(r.rules) {
		rules, err := h.socket.list(table, chain)
		named := func(rule listedRule) bool { return bytes.Contains(rule.exprs, ipBytes(r.address)) }
		if err != nil || slices.ContainsFunc(rules, named) {
			return true
		}
	}
	return false
}

// nftablesTable returns the table that iptables-nft has for one of iptables.
func (h *iptablesHost) nftablesTable(name string) *nftablesTable {
	if h.family == iptables.ProtocolIPv6 {
		return &nftablesTable{family: nftables.TableFamilyIPv6, name: name}
	}
	return &nftablesTable{family: nftables.TableFamilyIPv4, name: name}
}

// namesSlowly asks iptables for the rules.
func (h *iptablesHost) namesSlowly(r *iptablesRules) bool {
	for _, chain := range chainsOf(r.rules) {
		listing, _ := h.ask(r.table, "-S", chain) // empty: there is no such chain
		if h.missing || strings.Contains(listing, " "+r.address.String()+"/") {
			return true
		}
	}
	return false
}
