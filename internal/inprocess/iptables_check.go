// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"fmt"
)

// check looks for all rules of the attachment, in one process if they exist.
func (r *iptablesRules) check(ctx context.Context, kind IPTables) error {
	h, t := &iptablesHost{ctx: ctx, kind: kind, family: r.family}, &iptablesTransaction{}
	t.check(r)
	if h.restoreTable(&t.Transaction, r.table) == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return h.checkSteps(r)
}

// checkSteps tells what is missing.
func (h *iptablesHost) checkSteps(r *iptablesRules) error {
	if r.chain != "" {
		exists, err := h.hasChain(r.table, r.chain)
		if err != nil {
			return err
		}
		if !exists {
			return fmt.Errorf("chain %s not found in iptables table %s", r.chain, r.table)
		}
	}
	for _, rule := range r.rules {
		if exists, err := h.hasRule(r.table, rule); err != nil || !exists {
			return fmt.Errorf("rule %s in chain %s not found in table %s", rule.args, rule.chain, r.table)
		}
	}
	return nil
}
