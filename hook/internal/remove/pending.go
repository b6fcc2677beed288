// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/state"
)

// RetryDue is Engine.RetryDue.
func RetryDue(e *operation.Env) bool {
	boot, _, err := bootDue(e)
	if (err != nil || !boot) && !pendingDue(e) {
		return false
	}
	recorded, err := e.Store.IDs() // only now: there may be thousands
	return err == nil && len(recorded) > 0
}

// pendingDue tells whether an unfinished teardown is due.
func pendingDue(e *operation.Env) bool {
	ids, err := e.Store.Pending()
	if err != nil {
		e.Config.Logger.Warn("cannot list the unfinished teardowns", "error", err)
	}
	for _, id := range ids {
		record, err := e.Store.Read(id)
		if errors.Is(err, state.ErrNotFound) || err == nil && due(record, time.Now()) {
			return true
		}
	}
	return false
}

// RetryPending is Engine.RetryPending.
func RetryPending(ctx context.Context, e *operation.Env) error {
	unlock, err := e.Store.LockRetries()
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	TryCleanBoot(ctx, e)
	ids, err := e.Store.Pending()
	if err != nil {
		return fmt.Errorf("list the unfinished teardowns: %w", err)
	}
	teardownAll(ctx, e, ids, func(o *operation.Operation) bool { return due(o.Record, time.Now()) })
	return nil
}

func due(r state.Record, now time.Time) bool { return !nextAttempt(r, now).After(now) }

// nextAttempt returns when an unfinished teardown is retried, now at the earliest. The
// pauses between attempts grow. A clock that was set back does not delay it.
func nextAttempt(r state.Record, now time.Time) time.Time {
	next := now
	for _, a := range r.Attachments {
		if a.Phase != state.Pending || a.Updated.After(now) {
			continue
		}
		attempts := min(max(a.Attempts-1, 0), 20)
		at := a.Updated.Add(time.Duration(attempts*attempts) * 10 * time.Second)
		if at.After(next) {
			next = at
		}
	}
	return next
}

// maxTeardowns is how many allocations are torn down at once.
const maxTeardowns = 4

// teardownAll tears down the wanted allocations that are not locked.
func teardownAll(ctx context.Context, e *operation.Env, ids []string, wanted func(*operation.Operation) bool) {
	var group errgroup.Group
	group.SetLimit(maxTeardowns)
	for _, id := range ids {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			if err := teardownIf(ctx, e, id, wanted); err != nil {
				e.Config.Logger.Warn("teardown failed again", "allocation", id, "error", err)
			}
			return nil
		})
	}
	_ = group.Wait() // errors are logged
}

func teardownIf(ctx context.Context, e *operation.Env, id string, wanted func(*operation.Operation) bool) error {
	o, err := e.TryBegin(id)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer o.End()
	if o.HasRecord() && !wanted(o) {
		return nil
	}
	if o.IsLost() { // no retry removes it
		return o.Lock.ClearPending()
	}
	o.Reason = config.ReasonPending
	torn, err := recoverInterrupted(ctx, o)
	if torn || err != nil || len(o.Record.Damaged) > 0 || slices.ContainsFunc(o.Record.Attachments, func(a state.Attachment) bool { return a.Phase == state.Pending }) {
		return err
	}
	return o.Lock.ClearPending()
}

// recoverInterrupted tears down an allocation that is not set up, and rolls back the
// interrupted batches of one that is.
func recoverInterrupted(ctx context.Context, o *operation.Operation) (torn bool, err error) {
	if o.IsUnknown() {
		return false, nil
	}
	path, err := o.NamespacePath()
	if err != nil {
		return false, err
	}
	if path != "" && o.IsSetUp() {
		RollBackInterrupted(ctx, o)
		return false, forgetEmpty(ctx, o)
	}
	return true, All(ctx, o)
}
