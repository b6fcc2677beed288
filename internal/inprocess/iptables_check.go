// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"fmt"
)

// check looks for all rules of the attachment, in one process if they exist.
func (r *iptablesRules) check(ctx context.Context, kind IPTables) error {
	t := &iptablesTransaction{}
	t.check(r)
	if (&iptablesHost{ctx: ctx, kind: kind, family: r.family}).restoreTable(&t.Transaction, r.table) == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.checkSteps(ctx, kind)
}

// checkSteps tells what is missing.
func (r *iptablesRules) checkSteps(ctx context.Context, kind IPTables) error {
	ipt, err := openIPTables(ctx, kind, r.family)
	if err != nil {
		return err
	}
	if r.chain != "" {
		exists, err := ipt.ChainExists(r.table, r.chain)
		if err != nil {
			return err
		}
		if !exists {
			return fmt.Errorf("chain %s not found in iptables table %s", r.chain, r.table)
		}
	}
	for _, rule := range r.rules {
		exists, err := ipt.Exists(r.table, rule.chain, rule.args...)
		if err != nil || !exists {
			return fmt.Errorf("rule %s in chain %s not found in table %s", rule.args, rule.chain, r.table)
		}
	}
	return nil
}
