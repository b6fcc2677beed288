// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-iptables/iptables"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// ask returns iptables for questions, which waits for its lock until the deadline of the context, to the second.
func (h *iptablesHost) ask() (*iptables.IPTables, error) {
	if h.asked != nil || h.ctx.Err() != nil {
		return h.asked, context.Cause(h.ctx)
	}
	wait := netfilter.LockWait
	if deadline, ok := h.ctx.Deadline(); ok {
		wait = min(wait, int(time.Until(deadline)/time.Second)+1) // 0 is no limit
	}
	family := iptables.ProtocolIPv4
	if h.family == netfilter.IPv6 {
		family = iptables.ProtocolIPv6
	}
	var err error
	h.asked, err = iptables.New(iptables.IPFamily(family), iptables.Path(h.kind.program(h.family, "")), iptables.Timeout(wait))
	if err != nil {
		return nil, fmt.Errorf("failed to locate iptables: %w", err)
	}
	return h.asked, nil
}

// Exit codes of iptables.
const (
	exitUnknown = 2 // the chain of a rule that is looked for, or its target
	exitLocked  = 4
)

// exits tells whether iptables has ended with a code.
func exits(err error, code int) bool {
	var failed *iptables.Error
	return errors.As(err, &failed) && failed.ExitStatus() == code
}

// hasChain tells whether a table has a chain.
func (h *iptablesHost) hasChain(table, chain string) (bool, error) {
	ipt, err := h.ask()
	if err != nil {
		return false, err
	}
	return ipt.ChainExists(table, chain)
}

// hasRule tells whether a table has a rule.
func (h *iptablesHost) hasRule(table string, rule Rule) (bool, error) {
	ipt, err := h.ask()
	if err != nil {
		return false, err
	}
	return ipt.Exists(table, rule.Chain, rule.Args...)
}

// rulesIn returns the rules of a chain, none if it does not exist, or iptables does not say.
func (h *iptablesHost) rulesIn(table, chain string) []string {
	ipt, err := h.ask()
	if err != nil {
		return nil
	}
	lines, _ := ipt.List(table, chain) // as above
	return lines
}

// change changes one thing of a table, not with go-iptables but with iptables-restore, which inherits the host's holds: after kill -9 of this process
// no change comes unseen.
func (h *iptablesHost) change(table, verb, chain string, args ...string) error {
	t := &netfilter.Transaction{}
	t.Line(verb, chain, args...)
	return h.restoreTable(t, table)
}

// ensureChain makes a chain unless it exists.
func (h *iptablesHost) ensureChain(table, chain string) error {
	exists, err := h.hasChain(table, chain)
	if err != nil || exists {
		return err
	}
	err = h.change(table, "-N", chain)
	if err == nil {
		return nil
	}
	if exists, _ := h.hasChain(table, chain); exists { // another process made it
		return nil
	}
	return err
}

// ensureRules adds the rules that are missing.
func (h *iptablesHost) ensureRules(table string, rules []Rule) error {
	for _, rule := range rules {
		exists, err := h.hasRule(table, rule)
		if err != nil {
			return err
		}
		if exists {
			continue
		}
		t := &iptablesTransaction{}
		t.addRules([]Rule{rule})
		if err := h.restoreTable(&t.Transaction, table); err != nil {
			return err
		}
	}
	return nil
}

// deleteRule deletes a rule if it exists, with its chain and its target.
func (h *iptablesHost) deleteRule(table string, rule Rule) error {
	exists, err := h.hasRule(table, rule)
	var failed *iptables.Error
	if exits(err, exitUnknown) || errors.As(err, &failed) && failed.IsNotExist() {
		return nil
	}
	if err != nil || !exists {
		return err
	}
	return h.change(table, "-D", rule.Chain, rule.Args...)
}
