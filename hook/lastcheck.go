// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/lastcheck"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

const (
	// parallelChecks is how many plugins that allocnet does not know run at once: each is a
	// process, and it may hang.
	parallelChecks = 4
	// lastCheckLimit is the deadline of a CHECK by CheckUnknown, if CallTimeout is not shorter:
	// no caller waits for it, but its allocation is locked.
	lastCheckLimit = 10 * time.Second
)

// CheckRequest says what CheckUnknown examines.
type CheckRequest struct {
	// Every is the least time between two CHECKs of an attachment.
	Every time.Duration
	// Except tells which allocations are left out now. Nil: none.
	Except func(id string) bool
}

// CheckUnknown runs CHECK of attachments whose plugins allocnet does not know, and keeps the
// outcomes for RepairAttachments. An allocation that another call is changing is left out.
func (e *Engine) CheckUnknown(ctx context.Context, r CheckRequest) error {
	ids, err := e.store.IDs()
	if err != nil {
		return err
	}
	e.lastChecks.Keep(ids)
	var group errgroup.Group
	group.SetLimit(parallelChecks)
	errs := make([]error, len(ids))
	for i, id := range ids {
		group.Go(func() error {
			if ctx.Err() == nil && (r.Except == nil || !r.Except(id)) {
				errs[i] = e.checkUnknown(ctx, id, r.Every)
			}
			return nil
		})
	}
	_ = group.Wait() // each reports its own
	return errors.Join(errs...)
}

// checkUnknown locks an allocation only if there is something to be done.
func (e *Engine) checkUnknown(ctx context.Context, id string, every time.Duration) error {
	record, err := e.store.Read(id)
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	if err != nil || len(e.dueChecks(record, every)) == 0 {
		return err
	}
	o, err := e.tryBegin(id)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer o.end()
	for _, a := range e.dueChecks(o.record, every) {
		limited, stop := context.WithTimeout(ctx, lastCheckLimit)
		skipped, err := o.checkPlugins(limited, a)
		stop()
		if ctx.Err() == nil {
			e.lastChecks.Note(lastcheck.KeyOf(o.record, a), err)
		}
		if err == nil && skipped == "" {
			o.noteSucceeded([]state.Attachment{a})
		}
	}
	return nil
}

// dueChecks returns the attachments whose plugins are unknown, and were not asked for a time.
func (e *Engine) dueChecks(record state.Record, every time.Duration) []state.Attachment {
	if len(record.Damaged) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(record.Attachments), func(a state.Attachment) bool {
		if !onrecord.IsComplete(a) || a.FormerResult != nil {
			return true
		}
		last, found := e.lastChecks.Of(lastcheck.KeyOf(record, a))
		if found && last.Damages != 1 && time.Since(last.At) < every { // what was seen once is looked at again soon
			return true
		}
		list, err := cniconf.ParseList(a.ConfList)
		return err != nil || e.config.isKnown(a, list) // RepairAttachments reports the error
	})
}
