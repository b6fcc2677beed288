// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
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

// checkFirewallFamily looks for the rules of one family, in one process if they exist.
func checkFirewallFamily(ctx context.Context, family netfilter.Family, all []*iptablesRules) error {
	all = slices.DeleteFunc(slices.Clone(all), func(r *iptablesRules) bool { return r.family != family })
	h, t := &iptablesHost{ctx: ctx, family: family}, &iptablesTransaction{}
	for _, r := range all {
		t.check(r)
	}
	if h.restoreTable(&t.Transaction, "filter") == nil {
		return nil
	}
	for _, r := range all {
		if err := checkFirewallSteps(h, r); err != nil {
			return err
		}
	}
	return nil
}

// checkFirewallSteps tells what is missing. It makes the chains, as the reference plugin does.
func checkFirewallSteps(h *iptablesHost, r *iptablesRules) error {
	group := r.shared[0]
	for _, chain := range group.chains {
		if err := h.ensureChain(r.table, chain); err != nil {
			return err
		}
	}
	for _, rule := range slices.Concat(group.rules, r.rules) {
		exists, err := h.hasRule(r.table, rule)
		if err != nil {
			return err
		}
		if !exists {
			return fmt.Errorf("expected %v rule %v not found", rule.chain, rule.args)
		}
	}
	return nil
}
