// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"bytes"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// lacksLegacyChain tells whether it is certain that iptables-legacy has no such chain. Only a host
// without the program has the kernel list the table: the program is asked otherwise.
func (h *iptablesHost) lacksLegacyChain(table, chain string) bool {
	if h.lacksLegacyTable(table) {
		return true
	}
	if !h.missing {
		return false
	}
	entries, err := netfilter.ReadLegacy(h.family, table)
	return err == nil && !bytes.Contains(entries, append([]byte(chain), 0))
}

// lacksLegacyTable tells whether iptables-legacy has not made a table in this network
// namespace.
func (h *iptablesHost) lacksLegacyTable(table string) bool {
	tables, err := netfilter.LegacyTables(h.family)
	return err == nil && !slices.Contains(tables, table)
}
