// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// ask returns what iptables says of a table.
func (h *iptablesHost) ask(table string, args ...string) (string, error) {
	args = append([]string{fmt.Sprintf("--wait=%d", netfilter.LockWait), "-t", table}, args...)
	return netfilter.Runner{}.Run(h.ctx, "", h.kind.program(h.family, ""), args...)
}

// Exit codes of iptables.
const (
	exitMissing = 1 // a chain that is listed, a rule that is looked for
	exitUnknown = 2 // the chain of a rule that is looked for, or its target
	exitLocked  = 4
)

// exits tells whether an error is that of a program which ends with one of the codes.
func exits(err error, codes ...int) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && slices.Contains(codes, exit.ExitCode())
}

// hasChain tells whether a table has a chain. To list only its first rule is enough.
func (h *iptablesHost) hasChain(table, chain string) (bool, error) {
	_, err := h.ask(table, "-S", chain, "1")
	return err == nil, unlessMissing(err)
}

// hasRule tells whether a table has a rule.
func (h *iptablesHost) hasRule(table string, rule iptablesRule) (bool, error) {
	_, err := h.ask(table, append([]string{"-C", rule.chain}, rule.args...)...)
	return err == nil, unlessMissing(err)
}

// unlessMissing returns no error if iptables says that there is no such chain or rule.
func unlessMissing(err error) error {
	if exits(err, exitMissing) {
		return nil
	}
	return err
}

// change changes one thing of a table with iptables-restore, which inherits the host's holds: after kill -9 of this process
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
func (h *iptablesHost) ensureRules(table string, rules []iptablesRule) error {
	for _, rule := range rules {
		exists, err := h.hasRule(table, rule)
		if err != nil {
			return err
		}
		if exists {
			continue
		}
		t := &iptablesTransaction{}
		t.addRules([]iptablesRule{rule})
		if err := h.restoreTable(&t.Transaction, table); err != nil {
			return err
		}
	}
	return nil
}

// deleteRule deletes a rule if it exists, with its chain and its target.
func (h *iptablesHost) deleteRule(table string, rule iptablesRule) error {
	exists, err := h.hasRule(table, rule)
	if exits(err, exitUnknown) || err != nil && strings.Contains(err.Error(), "does not exist") {
		return nil
	}
	if err != nil || !exists {
		return err
	}
	return h.change(table, "-D", rule.chain, rule.args...)
}
