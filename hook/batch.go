// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"slices"

	"github.com/allocnet/allocnet/state"
)

// What one call attached is a batch: all of it or nothing. The empty batch is
// Setup's, and stands and falls with the allocation. Each later one, of Extend,
// is undone by itself when it was cut off, and what a Detach removes becomes a
// batch of its own, so that a killed Detach endangers nothing else.

// isComplete tells whether an attachment went through to its end.
func isComplete(a state.Attachment) bool { return a.Phase == state.Attached && a.Status != nil }

// batch returns the attachments of a batch.
func (o *operation) batch(name string) []state.Attachment {
	return slices.DeleteFunc(slices.Clone(o.record.Attachments), func(a state.Attachment) bool { return a.Batch != name })
}

// isSetUp tells whether what Setup did is there as a whole. An allocation
// that Extend recorded stands as soon as its namespace is known.
func (o *operation) isSetUp() bool {
	if len(o.record.Damaged) > 0 {
		return false
	}
	if o.record.Allocation.Digest == "" {
		return o.record.Allocation.NetnsID != "" && len(o.batch("")) == 0
	}
	attached := o.batch("")
	return len(attached) > 0 && !slices.ContainsFunc(attached, func(a state.Attachment) bool { return !isComplete(a) })
}

// rollBackInterrupted removes the batches that were cut off from an allocation that stands.
// What cannot be removed now stays on record for the next call.
func (o *operation) rollBackInterrupted(ctx context.Context) {
	broken := map[string]bool{}
	for _, a := range o.record.Attachments {
		broken[a.Batch] = broken[a.Batch] || !isComplete(a)
	}
	cut := slices.DeleteFunc(slices.Clone(o.record.Attachments), func(a state.Attachment) bool { return !broken[a.Batch] })
	if len(cut) == 0 {
		return
	}
	o.log.Info("removing attachments that were cut off", "count", len(cut))
	ctx, stop := phase(ctx, resetShare, "tearing down")
	defer stop()
	if err := o.remove(ctx, cut); err != nil {
		o.log.Warn("attachments that were cut off are still there", "error", err)
	}
}

// remove takes attachments down and leaves the others alone. An allocation
// that Extend recorded is forgotten with the last of them.
func (o *operation) remove(ctx context.Context, attachments []state.Attachment) error {
	if err := o.waitForOrphans(ctx); err != nil {
		return err
	}
	path, err := o.namespacePath()
	if err != nil {
		return err
	}
	if err := o.holdForPlugins(); err != nil {
		return err
	}
	part := *o
	part.record.Attachments = attachments
	failed := part.detachAll(ctx, path)
	if err := o.reload(); err != nil {
		return errors.Join(failed, err)
	}
	if failed == nil { // all are removed, and some are on record until their previous routes are back
		o.record.Attachments = slices.DeleteFunc(o.record.Attachments, func(a state.Attachment) bool { return contains(attachments, a) })
	}
	o.restoreDefaultRoutes(attachments)
	if failed == nil {
		failed = o.deleteRestored(attachments)
	}
	return errors.Join(failed, o.forget())
}

// reload reads again what is on record.
func (o *operation) reload() error {
	record, err := o.lock.Load()
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return err
	}
	record.Allocation.ID = o.record.Allocation.ID
	o.record = record
	return nil
}

// forget drops the record of an allocation that Extend recorded, and of which
// nothing is attached any more.
func (o *operation) forget() error {
	if len(o.record.Attachments) > 0 || o.record.Allocation.Digest != "" || len(o.record.Damaged) > 0 {
		return nil
	}
	o.closeHold()
	o.record = state.Record{Allocation: state.Allocation{ID: o.record.Allocation.ID}}
	return o.lock.Clear()
}
