// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"context"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// Check looks for all rules of the attachment, in one process if they exist.
func (r *IPTables) Check(ctx context.Context, kind Kind) error {
	p, t := &iptablesProgram{ctx: ctx, kind: kind, family: r.Family}, &iptablesTransaction{}
	t.check(r)
	if p.restoreTable(&t.Transaction, r.Table) == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.Chain != "" { // each tells what is missing
		exists, err := p.hasChain(r.Table, r.Chain)
		if err != nil {
			return err
		}
		if !exists {
			return fmt.Errorf("chain %s not found in iptables table %s", r.Chain, r.Table)
		}
	}
	for _, rule := range r.Rules {
		if exists, err := p.hasRule(r.Table, rule); err != nil || !exists {
			return fmt.Errorf("rule %s in chain %s not found in table %s", rule.Args, rule.Chain, r.Table)
		}
	}
	return nil
}

// CheckFamily looks for the rules of one family, in one process if they exist.
func CheckFamily(ctx context.Context, family netfilter.Family, all []*IPTables) error {
	all = slices.DeleteFunc(slices.Clone(all), func(r *IPTables) bool { return r.Family != family })
	p, t := &iptablesProgram{ctx: ctx, family: family}, &iptablesTransaction{}
	for _, r := range all {
		t.check(r)
	}
	if p.restoreTable(&t.Transaction, "filter") == nil {
		return nil
	}
	for _, r := range all {
		if err := checkWithShared(p, r); err != nil {
			return err
		}
	}
	return nil
}

// checkWithShared tells what is missing. It makes the chains, as the reference plugin does.
func checkWithShared(p *iptablesProgram, r *IPTables) error {
	group := r.Shared[0]
	for _, chain := range group.Chains {
		if err := p.ensureChain(r.Table, chain); err != nil {
			return err
		}
	}
	for _, rule := range slices.Concat(group.Rules, r.Rules) {
		exists, err := p.hasRule(r.Table, rule)
		if err != nil {
			return err
		}
		if !exists {
			return fmt.Errorf("expected %v rule %v not found", rule.Chain, rule.Args)
		}
	}
	return nil
}
