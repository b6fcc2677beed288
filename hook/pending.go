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

// RetryDue tells whether a teardown that did not finish is due to be tried
// again, or something of an earlier boot is left: then RetryPending has something to do. It runs no plugin and waits for
// no lock.
func (e *Engine) RetryDue() bool {
	recorded, err := e.store.IDs()
	if err != nil || len(recorded) == 0 {
		return false
	}
	if due, _, err := e.bootDue(); err == nil && due {
		return true
	}
	ids, err := e.store.Pending()
	if err != nil {
		e.log.Warn("cannot list the teardowns that did not finish", "error", err)
	}
	for _, id := range ids {
		record, err := e.store.Read(id)
		if errors.Is(err, state.ErrNotFound) || err == nil && due(record, time.Now()) {
			return true
		}
	}
	return false
}

// RetryPending tries the teardowns again that did not finish and are due. A
// plugin that hangs keeps it for minutes, so it is not to be called while
// another caller waits: Setup and Teardown leave it to the program around them.
// It does nothing while another process does the same.
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
		e.log.Warn("what earlier boots left is not removed yet", "error", err)
	}
	ids, err := e.store.Pending()
	if err != nil {
		return fmt.Errorf("list the teardowns that did not finish: %w", err)
	}
	e.teardownAll(ctx, ids, func(o *operation) bool { return due(o.record, time.Now()) })
	return nil
}

// due tells whether it is time to try again.
func due(r state.Record, now time.Time) bool { return !nextAttempt(r, now).After(now) }

// nextAttempt is when a teardown that did not finish is tried again, now at the
// earliest. The pauses between attempts grow. A clock that was set back does not
// put it off.
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
