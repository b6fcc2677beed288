// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-iptables/iptables"

	"github.com/allocnet/allocnet/internal/netfilter"
)

type iptablesProgram struct {
	ctx context.Context
	// holds are inherited by programs.
	holds  []*os.File
	family netfilter.Family
	// kind is which program has made the rules. Empty: that of the host.
	kind Kind
	// asked is nil until something is asked.
	asked *iptables.IPTables
}

// restore executes a transaction; an empty one is not executed.
func (p *iptablesProgram) restore(t *netfilter.Transaction) error {
	return t.Restore(p.ctx, netfilter.Runner{Holds: p.holds}.Run, p.kind.program(p.family, ""))
}

func (p *iptablesProgram) restoreTable(t *netfilter.Transaction, table string) error {
	whole := &netfilter.Transaction{}
	whole.Table(table, t)
	return p.restore(whole)
}

// ask returns iptables for questions, which waits for its lock until the deadline of the context, to the second.
func (p *iptablesProgram) ask() (*iptables.IPTables, error) {
	if p.asked != nil || p.ctx.Err() != nil {
		return p.asked, context.Cause(p.ctx)
	}
	wait := netfilter.LockWait
	if deadline, ok := p.ctx.Deadline(); ok {
		wait = min(wait, int(time.Until(deadline)/time.Second)+1) // 0 is no limit
	}
	family := iptables.ProtocolIPv4
	if p.family == netfilter.IPv6 {
		family = iptables.ProtocolIPv6
	}
	var err error
	p.asked, err = iptables.New(iptables.IPFamily(family), iptables.Path(p.kind.program(p.family, "")), iptables.Timeout(wait))
	if err != nil {
		return nil, fmt.Errorf("failed to locate iptables: %w", err)
	}
	return p.asked, nil
}

// Exit codes of iptables.
const (
	exitUnknown = 2 // the chain of a rule that is looked for, or its target
	exitLocked  = 4
)

// exits tells whether iptables has ended with a code.
func exits(err error, code int) bool {
	failed, ok := errors.AsType[*iptables.Error](err)
	return ok && failed.ExitStatus() == code
}

func (p *iptablesProgram) hasChain(table, chain string) (bool, error) {
	ipt, err := p.ask()
	if err != nil {
		return false, err
	}
	return ipt.ChainExists(table, chain)
}

func (p *iptablesProgram) hasRule(table string, rule Rule) (bool, error) {
	ipt, err := p.ask()
	if err != nil {
		return false, err
	}
	return ipt.Exists(table, rule.Chain, rule.Args...)
}

// rulesIn returns the rules of a chain, none if it does not exist, or iptables does not say.
func (p *iptablesProgram) rulesIn(table, chain string) []string {
	ipt, err := p.ask()
	if err != nil {
		return nil
	}
	lines, _ := ipt.List(table, chain) // as above
	return lines
}

// change changes one thing of a table, not with go-iptables but with iptables-restore, which inherits the host's holds: after kill -9 of this process
// no change comes unseen.
func (p *iptablesProgram) change(table, verb, chain string, args ...string) error {
	t := &netfilter.Transaction{}
	t.Line(verb, chain, args...)
	return p.restoreTable(t, table)
}

// ensureChain makes a chain unless it exists.
func (p *iptablesProgram) ensureChain(table, chain string) error {
	exists, err := p.hasChain(table, chain)
	if err != nil || exists {
		return err
	}
	err = p.change(table, "-N", chain)
	if err == nil {
		return nil
	}
	if exists, _ := p.hasChain(table, chain); exists { // another process made it
		return nil
	}
	return err
}

func (p *iptablesProgram) ensureRules(table string, rules []Rule) error {
	for _, rule := range rules {
		exists, err := p.hasRule(table, rule)
		if err != nil {
			return err
		}
		if exists {
			continue
		}
		t := &iptablesTransaction{}
		t.addRules([]Rule{rule})
		if err := p.restoreTable(&t.Transaction, table); err != nil {
			return err
		}
	}
	return nil
}

// deleteRule deletes a rule if it exists, with its chain and its target.
func (p *iptablesProgram) deleteRule(table string, rule Rule) error {
	exists, err := p.hasRule(table, rule)
	if failed, ok := errors.AsType[*iptables.Error](err); ok && (failed.IsNotExist() || exits(err, exitUnknown)) {
		return nil
	}
	if err != nil || !exists {
		return err
	}
	return p.change(table, "-D", rule.Chain, rule.Args...)
}
