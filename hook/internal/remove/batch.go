// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"context"
	"errors"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/state"
)

// A call attaches its batch as a whole or not at all. Setup's batch is torn down
// with the allocation. A batch of Extend is rolled back alone when it was
// interrupted. Detach first moves what it removes into a batch of its own, so a
// killed Detach endangers no other attachment.

// RollBackInterrupted removes the interrupted batches of an allocation that is set
// up. Attachments that cannot be removed now stay on record for the next call.
func RollBackInterrupted(ctx context.Context, o *operation.Operation) {
	interrupted := map[state.Batch]bool{}
	for _, a := range o.Record.Attachments {
		interrupted[a.Batch] = interrupted[a.Batch] || !onrecord.IsComplete(a)
	}
	removed := slices.DeleteFunc(slices.Clone(o.Record.Attachments), func(a state.Attachment) bool { return !interrupted[a.Batch] })
	if len(removed) == 0 {
		o.Work().Removed()
		return
	}
	o.Log.Info("removing attachments of an interrupted call", "count", len(removed))
	ctx, stop := operation.Phase(ctx, operation.ResetShare, "tearing down")
	defer stop()
	if err := Attachments(ctx, o, removed); err != nil {
		o.Log.Warn("attachments of an interrupted call are still attached", "error", err)
	}
}

// Attachments detaches attachments and keeps the others. The record of an allocation
// that Extend recorded is removed with the last of them.
func Attachments(ctx context.Context, o *operation.Operation, attachments []state.Attachment) error {
	if err := WaitForOrphans(ctx, o); err != nil {
		return err
	}
	path, err := o.FindNamespace()
	if err != nil {
		return err
	}
	failed := detachAll(ctx, o, path, attachments)
	if err := restoreAfterRemoval(o); err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, forgetEmpty(ctx, o))
}

// forgetEmpty drops a record that Extend made, once it has no attachments.
func forgetEmpty(ctx context.Context, o *operation.Operation) error {
	if len(o.Record.Attachments) > 0 || o.Record.Allocation.Mode == state.ModeSetup || len(o.Record.Damaged) > 0 {
		return nil
	}
	o.Reset()
	return forget(ctx, o)
}
