// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/state"
)

// sweepWidth is how many allocations are torn down at once.
const sweepWidth = 4

// sweep does, before something new is attached, what has to be done once in a
// boot. It never fails its caller: what fails stays on record.
func (e *Engine) sweep(ctx context.Context) {
	if err := e.sweepBoot(ctx); err != nil {
		e.log.Warn("records of an earlier boot are not torn down yet", "error", err)
	}
}

// sweepBoot tears down, once in a boot, what earlier boots have on record: the
// namespaces are gone, but addresses are still given out to them.
func (e *Engine) sweepBoot(ctx context.Context) error {
	boot, err := state.BootID()
	if err != nil {
		return err
	}
	if swept, err := e.store.SweptBoot(); err != nil || swept == boot {
		return err
	}
	unlock, err := e.store.LockCollecting(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if swept, err := e.store.SweptBoot(); err != nil || swept == boot { // somebody was quicker
		return err
	}
	ids, err := e.store.IDs()
	if err != nil {
		return err
	}
	e.teardownAll(ctx, ids, func(o *operation) bool { return o.record.Allocation.BootID != boot })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return e.store.SetSweptBoot(boot)
}

// teardownAll tears down the allocations that are wanted and that nobody is at
// work on.
func (e *Engine) teardownAll(ctx context.Context, ids []string, wanted func(*operation) bool) {
	var group errgroup.Group
	group.SetLimit(sweepWidth)
	for _, id := range ids {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			if err := e.teardownIf(ctx, id, wanted); err != nil {
				e.log.Warn("teardown failed again", "allocation", id, "error", err)
			}
			return nil
		})
	}
	_ = group.Wait() // errors are logged
}

func (e *Engine) teardownIf(ctx context.Context, id string, wanted func(*operation) bool) error {
	o, err := e.tryBegin(id)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer o.end()
	if o.known() && !wanted(o) {
		return nil
	}
	torn, err := o.tidy(ctx)
	if torn || err != nil || slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool { return a.Phase == state.Pending }) {
		return err
	}
	return o.lock.ClearPending()
}

// tidy tears an allocation down that does not stand, and removes what is half
// attached or half detached from one that does.
func (o *operation) tidy(ctx context.Context) (torn bool, err error) {
	path, err := o.namespacePath()
	if err != nil {
		return false, err
	}
	if path != "" && o.standing() {
		o.settle(ctx)
		return false, nil
	}
	return true, o.teardown(ctx)
}
