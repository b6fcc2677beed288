// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package check

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/lastcheck"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/repair"
	"github.com/allocnet/allocnet/state"
)

// lastCheckLimit is the deadline of a CHECK by CheckUnknown, if CallTimeout is not shorter:
// no caller waits for it, but its allocation is locked.
const lastCheckLimit = 10 * time.Second

// UnknownRequest says what CheckUnknown examines.
type UnknownRequest struct {
	// Every is the least time between two CHECKs of an attachment.
	Every time.Duration
	// Except tells which allocations are left out now. Nil: none.
	Except func(id string) bool
}

// Unknown is Engine.CheckUnknown.
func Unknown(ctx context.Context, e *operation.Env, r UnknownRequest) error {
	ids, err := e.Store.IDs()
	if err != nil {
		return err
	}
	e.LastChecks.Keep(ids)
	var group errgroup.Group
	group.SetLimit(repair.ParallelChecks)
	errs := make([]error, len(ids))
	for i, id := range ids {
		group.Go(func() error {
			if ctx.Err() == nil && (r.Except == nil || !r.Except(id)) {
				errs[i] = unknownOf(ctx, e, id, r.Every)
			}
			return nil
		})
	}
	_ = group.Wait() // each reports its own
	return errors.Join(errs...)
}

// unknownOf locks an allocation only if there is something to be done.
func unknownOf(ctx context.Context, e *operation.Env, id string, every time.Duration) error {
	record, err := e.Store.Read(id)
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	if err != nil || len(dueChecks(e, record, every)) == 0 {
		return err
	}
	o, err := e.TryBegin(id)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer o.End()
	for _, a := range dueChecks(e, o.Record, every) {
		limited, stop := context.WithTimeout(ctx, lastCheckLimit)
		skipped, err := repair.CheckPlugins(limited, o, a)
		stop()
		if ctx.Err() == nil {
			e.LastChecks.Note(lastcheck.KeyOf(o.Record, a), err)
		}
		if err == nil && skipped == "" {
			repair.NoteSucceeded(o, []state.Attachment{a})
		}
	}
	return nil
}

// dueChecks returns the attachments whose plugins are unknown, and were not asked for a time.
func dueChecks(e *operation.Env, record state.Record, every time.Duration) []state.Attachment {
	if len(record.Damaged) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(record.Attachments), func(a state.Attachment) bool {
		if !onrecord.IsComplete(a) || a.FormerResult != nil {
			return true
		}
		last, found := e.LastChecks.Of(lastcheck.KeyOf(record, a))
		if found && last.Damages != 1 && time.Since(last.At) < every { // what was seen once is looked at again soon
			return true
		}
		list, err := cniconf.ParseList(a.ConfList)
		return err != nil || e.Config.IsKnown(a, list) // RepairAttachments reports the error
	})
}
