// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-iptables/iptables"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// openIPTables returns iptables that waits for its lock until the deadline of ctx, to the second.
func openIPTables(ctx context.Context, kind IPTables, family iptables.Protocol) (*iptables.IPTables, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	wait := lockTimeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, int(time.Until(deadline)/time.Second)+1) // 0 is no limit
	}
	ipt, err := iptables.New(iptables.IPFamily(family), iptables.Path(kind.program(family, "")), iptables.Timeout(wait))
	if err != nil {
		return nil, fmt.Errorf("failed to locate iptables: %w", err)
	}
	return ipt, nil
}

// makeShared makes what all attachments use in a table, as far as possible, and returns whether
// there is anything. Of several processes one makes it.
func (h *iptablesHost) makeShared(changes iptablesChangeList, table string) bool {
	var groups []iptablesGroup
	done := map[string]bool{}
	for _, change := range changes {
		for _, group := range change.shared {
			t := &iptablesTransaction{}
			t.addGroup(group)
			if text := t.text.String(); !change.remove && !done[text] {
				done[text] = true
				groups = append(groups, group)
			}
		}
	}
	if len(groups) == 0 {
		return false
	}
	// Between looking for a rule and adding it another process may add it. The namespace is
	// what all that do so have in common.
	if namespace, err := os.Open("/proc/thread-self/ns/net"); err == nil {
		defer files.CloseLocked(namespace)
		_ = files.Lock(h.ctx, namespace, unix.LOCK_EX) // without the lock a rule may be there twice
	}
	for _, group := range groups {
		h.makeGroup(group, table)
	}
	return true
}

// makeGroup makes what is missing of a group: in one transaction if it does not exist at all.
func (h *iptablesHost) makeGroup(group iptablesGroup, table string) {
	existing, all := &iptablesTransaction{}, &iptablesTransaction{}
	existing.checkGroup(group)
	all.addGroup(group)
	if h.restoreTable(existing, table) != nil && h.restoreTable(all, table) != nil && h.ctx.Err() == nil {
		_ = h.makeSteps(group, table) // who needs it fails
	}
}

// makeSteps makes what is missing of the group.
func (h *iptablesHost) makeSteps(g iptablesGroup, table string) error {
	s, err := h.steps(table)
	if err != nil {
		return err
	}
	for _, chain := range g.chains {
		if err := s.ensureChain(chain); err != nil {
			return err
		}
	}
	return s.ensureRules(g.rules)
}

// addSteps adds what is missing of the rules, and of what they use.
func (h *iptablesHost) addSteps(r *iptablesRules) error {
	for _, group := range r.shared {
		if err := h.makeSteps(group, r.table); err != nil {
			return err
		}
	}
	s, err := h.steps(r.table)
	if err != nil {
		return err
	}
	if r.chain != "" {
		if err := s.ensureChain(r.chain); err != nil {
			return err
		}
	}
	return s.ensureRules(r.rules)
}

// removeSteps removes what there is of the rules. Those of a chain are removed by what leads
// to it: the configuration may have changed since ADD.
func (h *iptablesHost) removeSteps(r *iptablesRules) error {
	s, err := h.steps(r.table)
	if err != nil {
		return err
	}
	if r.chain == "" {
		var errs []error
		for _, rule := range r.rules {
			errs = append(errs, s.deleteRule(rule))
		}
		return errors.Join(append(errs, h.requireGone(r))...)
	}
	for range removalAttempts {
		var exists bool
		if exists, err = s.ChainExists(r.table, r.chain); err != nil || !exists {
			return cmp.Or(err, h.requireGone(r))
		}
		t := &iptablesTransaction{}
		for _, chain := range r.callers() {
			if err := t.removeCalls(s.IPTables, r, chain); err != nil {
				return err
			}
		}
		t.removeChain(r.chain)
		if err = h.restoreTable(t, r.table); err == nil {
			return nil
		}
	}
	return err
}

// requireGone returns an error if the kernel still has the chain, or rules with the address: those of a ruleset that was saved and
// loaded again have a form that iptables does not know. It calls a table with them incompatible, or says that there is nothing.
func (h *iptablesHost) requireGone(r *iptablesRules) error {
	gone := h.legacy || h.socket == nil || r.address != nil && !h.names(r)
	if r.address == nil {
		gone = gone || r.chain == "" || h.lacksChain(r.table, r.chain)
	}
	if gone {
		return nil
	}
	return fmt.Errorf("chain %s of table %s has rules that iptables does not show as they were made: if a saved ruleset was loaded, delete them with nft -a list ruleset and nft delete rule", cmp.Or(r.chain, chainsOf(r.rules)[0]), r.table)
}

// removalAttempts is how often what leads to a chain is looked for: another process may be
// removing the same.
const removalAttempts = 3

// removeCalls removes the rules of the attachment in a chain of others that lead to its own.
func (t *iptablesTransaction) removeCalls(ipt *iptables.IPTables, r *iptablesRules, caller string) error {
	lines, err := ipt.List(r.table, caller)
	if err != nil {
		return nil // the chain does not exist, so it has no rule
	}
	for _, line := range lines {
		rest, ok := strings.CutPrefix(line, "-A ")
		if !ok || !strings.HasSuffix(line, " -j "+r.chain) {
			continue
		}
		if !strings.Contains(line, ` --comment "`+strings.ReplaceAll(r.comment, `"`, `\"`)+`" `) {
			return fmt.Errorf("chain %s of table %s stays: %w: %s", r.chain, r.table, errCalled, line)
		}
		t.text.WriteString("-D " + rest + "\n")
	}
	return nil
}
