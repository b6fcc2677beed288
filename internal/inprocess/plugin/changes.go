// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"os"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// Changes are what a chain leaves to be committed: rules to add or to remove, links to remove,
// and leases to release. The zero value has none.
type Changes struct {
	Rules rules.Set
	links []link
	// leases release addresses when the links that have them, and the rules of the
	// attachment, are removed: they may be given out again at once.
	leases []func(context.Context) error
	// Unlinked are run when links and rules have been removed, and before addresses are released, which are not if one fails.
	Unlinked []func(context.Context) error
	// After are run when the rules have been added, until one fails.
	After []func() error
}

func rulesOf(all []*Changes) []*rules.Set {
	sets := make([]*rules.Set, len(all))
	for i, c := range all {
		sets[i] = &c.Rules
	}
	return sets
}

// Commit makes the changes of the chains of one allocation, each kind in one transaction.
// The result has an error for each of them, nil where it succeeded. Removal is safe to
// repeat; an addition that failed may have left a part, which DEL removes. Programs that it
// runs inherit hold, unless it is nil: its locks tell, after kill -9 of this process, that
// one still runs. A panic is an error of all chains: which of them it is from is unknown.
func Commit(ctx context.Context, hold *os.File, all []*Changes) []error {
	errs := make([]error, len(all))
	ofRules, ofLinks := make([]error, len(all)), make([]error, len(all))
	sets := rulesOf(all)
	host := rules.Open(ctx, hold, sets)
	defer host.Close() // when nothing else remains to be done: it waits until the kernel has freed what was removed
	var group errgroup.Group
	group.Go(func() error { defer within.RecoverInto(ofRules); host.Commit(sets, ofRules); return nil })
	group.Go(func() error { defer within.RecoverInto(ofLinks); removeLinks(ctx, all, ofLinks); return nil })
	_ = group.Wait() // each reports its own
	for i, c := range all {
		if errs[i] = errors.Join(ofRules[i], ofLinks[i]); errs[i] == nil {
			c.finish(ctx, errs[i:i+1])
		}
		errs[i] = coded(ctx, errs[i])
	}
	return errs
}

// CommitMissing is that of package rules. What was missing, and why it could not be added, is in the Repair of each chain.
func CommitMissing(ctx context.Context, holds []*os.File, all []*Changes) {
	rules.CommitMissing(ctx, holds, rulesOf(all))
}

// finish does what follows the rules and links. It reports its error in errs, which has one
// element.
func (c *Changes) finish(ctx context.Context, errs []error) {
	defer within.RecoverInto(errs)
	for _, f := range c.Unlinked {
		errs[0] = errors.Join(errs[0], f(ctx))
	}
	if errs[0] != nil {
		return
	}
	for _, release := range c.leases {
		errs[0] = errors.Join(errs[0], release(ctx))
	}
	for _, f := range c.After {
		if errs[0] == nil {
			errs[0] = f()
		}
	}
}

// coded returns the error of a commit as a plugin would: with the code of internal errors.
func coded(ctx context.Context, err error) error {
	if _, isOwn := errors.AsType[*types.Error](err); isOwn || err == nil || ctx.Err() != nil {
		return err
	}
	return types.NewError(types.ErrInternal, err.Error(), "")
}
