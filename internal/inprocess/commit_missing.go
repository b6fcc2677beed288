// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// commitMissing adds the rules of chains that repair, as far as they are missing. Rules that are there stay where they
// are, except that the rules of one attachment alone, of which some are missing, are replaced in the transaction: their
// order counts. Programs that change rules inherit the holds.
func commitMissing(ctx context.Context, holds []*os.File, all []*ruleSet) {
	all = slices.DeleteFunc(slices.Clone(all), func(c *ruleSet) bool { return c.repair == nil || len(c.rules) == 0 })
	if len(all) == 0 {
		return
	}
	// Other calls make what all attachments share under the same lock.
	if namespace, err := os.Open("/proc/thread-self/ns/net"); err == nil {
		defer files.CloseLocked(namespace)
		_ = files.Lock(ctx, namespace, unix.LOCK_EX) // without the lock a rule may be there twice
	}
	m := &missingRules{ctx: ctx, holds: holds, all: all, incomplete: map[*ruleSet]bool{}}
	m.run(m.nftables)
	for _, kind := range kindsOf(all) {
		for _, family := range iptablesFamilies {
			m.run(func() error { return m.iptables(kind, family) })
		}
	}
	m.forgetFlows()
}

// missingRules are the rules of chains that repair.
type missingRules struct {
	ctx context.Context
	// holds are inherited by programs that change rules.
	holds []*os.File
	all   []*ruleSet
	// incomplete are those of which rules were missing.
	incomplete map[*ruleSet]bool
}

// run makes an error, or a panic, that of all chains: which of them it is from is unknown.
func (m *missingRules) run(f func() error) {
	var err error
	func() {
		errs := []error{nil}
		defer func() { err = errors.Join(err, errs[0]) }()
		defer within.RecoverInto(errs)
		err = f()
	}()
	if m.ctx.Err() != nil {
		err = context.Cause(m.ctx)
	}
	for _, c := range m.all {
		c.repair.Fail(err)
	}
}

// lack notes what is missing of a chain's rules.
func (m *missingRules) lack(c *ruleSet, what ...string) {
	for _, text := range what {
		m.incomplete[c] = true
		if !slices.Contains(c.repair.Missing, text) {
			c.repair.Missing = append(c.repair.Missing, text)
		}
	}
}

// forgetFlows does so for those whose rules have been added.
func (m *missingRules) forgetFlows() {
	repaired := &missingRules{ctx: m.ctx}
	var translations []translation
	for _, c := range m.all {
		if m.incomplete[c] && len(c.translations) > 0 && c.repair.Err == nil && !c.repair.DryRun {
			repaired.all, translations = append(repaired.all, c), append(translations, c.translations...)
		}
	}
	if len(translations) == 0 {
		return
	}
	repaired.run(func() error {
		socket, err := dialFlows(m.ctx)
		if err != nil {
			return err
		}
		defer socket.Close() //nolint:errcheck // nothing is left to send
		return forgetFlows(socket, translations)
	})
}
