// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"

	"github.com/coreos/go-iptables/iptables"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// iptablesSteps reads rules of one table with iptables, and changes them with
// iptables-restore, which inherits the host's holds: after kill -9 of this process no change
// comes unseen.
type iptablesSteps struct {
	*iptables.IPTables

	host  *iptablesHost
	table string
}

func (h *iptablesHost) steps(table string) (*iptablesSteps, error) {
	ipt, err := openIPTables(h.ctx, h.kind, h.family)
	return &iptablesSteps{ipt, h, table}, err
}

func (s *iptablesSteps) change(verb, chain string, args []string) error {
	t := &netfilter.Transaction{}
	t.Line(verb, chain, args...)
	return s.host.restoreTable(t, s.table)
}

// ensureChain makes a chain unless it exists.
func (s *iptablesSteps) ensureChain(chain string) error {
	exists, err := s.ChainExists(s.table, chain)
	if err != nil || exists {
		return err
	}
	err = s.change("-N", chain, nil)
	if err == nil {
		return nil
	}
	if exists, _ := s.ChainExists(s.table, chain); exists { // another process made it
		return nil
	}
	return err
}

// ensureRules adds the rules that are missing.
func (s *iptablesSteps) ensureRules(rules []iptablesRule) error {
	for _, rule := range rules {
		exists, err := s.Exists(s.table, rule.chain, rule.args...)
		if err != nil {
			return err
		}
		if exists {
			continue
		}
		verb := "-A"
		if rule.first {
			verb = "-I"
		}
		if err := s.change(verb, rule.chain, rule.args); err != nil {
			return err
		}
	}
	return nil
}

// deleteRule deletes a rule if it exists, with its chain and its target.
func (s *iptablesSteps) deleteRule(rule iptablesRule) error {
	exists, err := s.Exists(s.table, rule.chain, rule.args...)
	var failed *iptables.Error
	if errors.As(err, &failed) && (failed.IsNotExist() || failed.ExitStatus() == 2) {
		return nil
	}
	if err != nil || !exists {
		return err
	}
	return s.change("-D", rule.chain, rule.args)
}
