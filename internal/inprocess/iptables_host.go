// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
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
	// socket is nil if there is no connection.
	socket *nftablesSocket
	// nft and legacy are whether iptables may be that program. Both: it is unknown, or there
	// is none.
	nft, legacy bool
	// missing is whether there is no program.
	missing bool
}

// identify finds out which program iptables is. Distributions have links to one that has its
// name.
func (h *iptablesHost) identify() {
	h.nft, h.legacy, h.missing = true, true, true
	if path, err := exec.LookPath(restoreProgram(h.family)); err == nil {
		h.missing = false
		name, _ := filepath.EvalSymlinks(path)
		h.nft = !strings.Contains(filepath.Base(name), "legacy")
		h.legacy = !strings.Contains(filepath.Base(name), "nft")
	}
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
	ipt, err := openIPTables(h.ctx, h.family)
	if err != nil {
		return true
	}
	for _, chain := range chainsOf(r.rules) {
		lines, err := ipt.List(r.table, chain)
		if err != nil {
			continue // it does not exist
		}
		if strings.Contains(strings.Join(lines, "\n"), " "+r.address.String()+"/") {
			return true
		}
	}
	return false
}
