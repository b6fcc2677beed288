// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allocnet/allocnet/state"
)

// RetryDue tells whether RetryPending has work: an unfinished teardown is due for a
// retry, or allocations of an earlier boot are on record. It runs no plugin and waits for
// no lock.
func (e *Engine) RetryDue() bool {
	boot, _, err := e.bootDue()
	if (err != nil || !boot) && !e.pendingDue() {
		return false
	}
	recorded, err := e.store.IDs() // only now: there may be thousands
	return err == nil && len(recorded) > 0
}

// pendingDue tells whether an unfinished teardown is due.
func (e *Engine) pendingDue() bool {
	ids, err := e.store.Pending()
	if err != nil {
		e.config.Logger.Warn("cannot list the unfinished teardowns", "error", err)
	}
	for _, id := range ids {
		record, err := e.store.Read(id)
		if errors.Is(err, state.ErrNotFound) || err == nil && due(record, time.Now()) {
			return true
		}
	}
	return false
}

// RetryPending retries the unfinished teardowns that are due. A plugin that hangs keeps
// it for minutes, so call it while no other caller waits: Setup and Teardown leave it to
// the program around them. It does nothing while another process does the same.
func (e *Engine) RetryPending(ctx context.Context) error {
	unlock, err := e.store.LockRetries()
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := e.cleanBoot(ctx); err != nil {
		e.config.Logger.Warn("what earlier boots left is not removed yet", "error", err)
	}
	ids, err := e.store.Pending()
	if err != nil {
		return fmt.Errorf("list the unfinished teardowns: %w", err)
	}
	e.teardownAll(ctx, ids, func(o *operation) bool { return due(o.record, time.Now()) })
	return nil
}

// due tells whether it is time for the next attempt.
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
