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

// maxTeardowns is how many allocations are torn down at once.
const maxTeardowns = 4

// teardownAll tears down the wanted allocations that are not locked.
func (e *Engine) teardownAll(ctx context.Context, ids []string, wanted func(*operation) bool) {
	var group errgroup.Group
	group.SetLimit(maxTeardowns)
	for _, id := range ids {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			if err := e.teardownIf(ctx, id, wanted); err != nil {
				e.config.Logger.Warn("teardown failed again", "allocation", id, "error", err)
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
	if o.hasRecord() && !wanted(o) {
		return nil
	}
	if o.isLost() { // no retry removes it
		return o.lock.ClearPending()
	}
	o.reason = ReasonPending
	torn, err := o.recoverInterrupted(ctx)
	if torn || err != nil || len(o.record.Damaged) > 0 || slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool { return a.Phase == state.Pending }) {
		return err
	}
	return o.lock.ClearPending()
}

// recoverInterrupted tears down an allocation that is not set up, and rolls back the
// interrupted batches of one that is.
func (o *operation) recoverInterrupted(ctx context.Context) (torn bool, err error) {
	if o.isUnknown() {
		return false, nil
	}
	path, err := o.namespacePath()
	if err != nil {
		return false, err
	}
	if path != "" && o.isSetUp() {
		o.rollBackInterrupted(ctx)
		return false, o.forgetEmpty()
	}
	return true, o.teardown(ctx)
}
