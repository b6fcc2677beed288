// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"context"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/inprocess/flows"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// CommitMissing adds the rules of chains that repair, as far as they are missing. Rules that are there stay where they
// are, except that the rules of one attachment alone, of which some are missing, are replaced in the transaction: their
// order counts. Programs that change rules inherit the holds, such as locks: after kill -9 of this process these tell that one
// still runs.
func CommitMissing(ctx context.Context, holds []*os.File, all []*Set) {
	all = slices.DeleteFunc(slices.Clone(all), func(c *Set) bool { return c.Repair == nil || len(c.Changes) == 0 })
	if len(all) == 0 {
		return
	}
	// Other calls make what all attachments share under the same lock.
	if namespace, err := os.Open("/proc/thread-self/ns/net"); err == nil {
		defer files.CloseLocked(namespace)
		_ = files.Lock(ctx, namespace, unix.LOCK_EX) // without the lock a rule may be there twice
	}
	m := &missingRules{ctx: ctx, holds: holds, all: all, incomplete: map[*Set]bool{}}
	m.run(m.nftables)
	for _, kind := range kindsOf(all) {
		for _, family := range Families {
			m.run(func() error { return m.iptables(kind, family) })
		}
	}
	m.forgetFlows()
}

type missingRules struct {
	ctx context.Context
	// holds are inherited by programs that change rules.
	holds []*os.File
	all   []*Set
	// incomplete are those of which rules were missing.
	incomplete map[*Set]bool
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
		c.Repair.Fail(err)
	}
}

func (m *missingRules) lack(c *Set, what ...string) {
	for _, text := range what {
		m.incomplete[c] = true
		if !slices.Contains(c.Repair.Missing, text) {
			c.Repair.Missing = append(c.Repair.Missing, text)
		}
	}
}

// forgetFlows does so for those whose rules have been added.
func (m *missingRules) forgetFlows() {
	repaired := &missingRules{ctx: m.ctx}
	var translations []flows.Translation
	for _, c := range m.all {
		if m.incomplete[c] && len(c.Translations) > 0 && c.Repair.Err == nil && !c.Repair.DryRun {
			repaired.all, translations = append(repaired.all, c), append(translations, c.Translations...)
		}
	}
	if len(translations) == 0 {
		return
	}
	repaired.run(func() error { return flows.Forget(m.ctx, translations) })
}
