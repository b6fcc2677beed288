// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// makeShared makes what all attachments use in a table, as far as possible, and returns whether
// there is anything. Of several processes one makes it.
func (h *iptablesHost) makeShared(changes iptablesChangeList, table string) bool {
	var groups []Group
	done := map[string]bool{}
	for _, change := range changes {
		for _, group := range change.Shared {
			t := &iptablesTransaction{}
			t.addGroup(group)
			if text := t.String(); !change.remove && !done[text] {
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
func (p *iptablesProgram) makeGroup(group Group, table string) {
	existing, all := &iptablesTransaction{}, &iptablesTransaction{}
	existing.checkGroup(group)
	all.addGroup(group)
	if p.restoreTable(&existing.Transaction, table) != nil && p.restoreTable(&all.Transaction, table) != nil && p.ctx.Err() == nil {
		_ = p.makeSteps(group, table) // who needs it fails
	}
}

func (p *iptablesProgram) makeSteps(g Group, table string) error {
	for _, chain := range g.Chains {
		if err := p.ensureChain(table, chain); err != nil {
			return err
		}
	}
	return p.ensureRules(table, g.Rules)
}

// addSteps adds what is missing of the rules, and of what they use.
func (h *iptablesHost) addSteps(r *IPTables) error {
	for _, group := range r.Shared {
		if err := h.makeSteps(group, r.Table); err != nil {
			return err
		}
	}
	if r.Chain != "" {
		if err := h.ensureChain(r.Table, r.Chain); err != nil {
			return err
		}
	}
	return h.ensureRules(r.Table, r.Rules)
}

// removeSteps removes what there is of the rules. Those of a chain are removed by what leads
// to it: the configuration may have changed since ADD.
func (h *iptablesHost) removeSteps(r *IPTables) (err error) {
	if r.Chain == "" {
		var errs []error
		for _, rule := range r.Rules {
			errs = append(errs, h.deleteRule(r.Table, rule))
		}
		return errors.Join(append(errs, h.requireGone(r))...)
	}
	for range removalAttempts {
		var exists bool
		if exists, err = h.hasChain(r.Table, r.Chain); err != nil || !exists {
			return cmp.Or(err, h.requireGone(r))
		}
		t := &iptablesTransaction{}
		for _, chain := range r.callers() {
			if err := h.removeCalls(t, r, chain); err != nil {
				return err
			}
		}
		t.removeChain(r.Chain)
		if err = h.restoreTable(&t.Transaction, r.Table); err == nil {
			return nil
		}
	}
	return err
}

// requireGone returns an error if the kernel still has the chain, or rules with the address: those of a ruleset that was saved and
// loaded again have a form that iptables does not know. It calls a table with them incompatible, or says that there is nothing.
func (h *iptablesHost) requireGone(r *IPTables) error {
	gone := h.legacy || h.socket == nil || r.Address != nil && !h.names(r)
	if r.Address == nil {
		gone = gone || r.Chain == "" || h.lacksChain(r.Table, r.Chain)
	}
	if gone {
		return nil
	}
	return fmt.Errorf("chain %s of table %s has rules that iptables does not show as they were made: if a saved ruleset was loaded, delete them with nft -a list ruleset and nft delete rule", cmp.Or(r.Chain, chainsOf(r.Rules)[0]), r.Table)
}

// removalAttempts is how often what leads to a chain is looked for: another process may be
// removing the same.
const removalAttempts = 3

// removeCalls removes the rules of the attachment in a chain of others that lead to its own.
func (h *iptablesHost) removeCalls(t *iptablesTransaction, r *IPTables, caller string) error {
	for line := range netfilter.Lines(strings.Join(h.rulesIn(r.Table, caller), "\n")) {
		if !strings.HasSuffix(line.Rule, " -j "+r.Chain) {
			continue
		}
		if words, err := netfilter.Split(line.Rule); err != nil || netfilter.Option(words, "--comment") != r.Comment {
			return fmt.Errorf("chain %s of table %s stays: %w: %s", r.Chain, r.Table, errCalled, line.Rule)
		}
		t.Delete(line.Rule)
	}
	return nil
}
