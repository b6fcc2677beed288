// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import "github.com/allocnet/allocnet/internal/netfilter"

// restore executes a transaction; an empty one is not executed.
func (h *iptablesHost) restore(t *netfilter.Transaction) error {
	return t.Restore(h.ctx, netfilter.Runner{Holds: h.holds}.Run, h.kind.program(h.family, ""))
}

// restoreTable executes the lines of one table.
func (h *iptablesHost) restoreTable(t *netfilter.Transaction, table string) error {
	whole := &netfilter.Transaction{}
	whole.Table(table, t)
	return h.restore(whole)
}
