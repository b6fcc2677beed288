// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// A call attaches its batch as a whole or not at all. Setup's batch is torn down
// with the allocation. A batch of Extend is rolled back alone when it was
// interrupted. Detach first moves what it removes into a batch of its own, so a
// killed Detach endangers no other attachment.

// rollBackInterrupted removes the interrupted batches of an allocation that is set
// up. Attachments that cannot be removed now stay on record for the next call.
func (o *operation) rollBackInterrupted(ctx context.Context) {
	interrupted := map[state.Batch]bool{}
	for _, a := range o.record.Attachments {
		interrupted[a.Batch] = interrupted[a.Batch] || !onrecord.IsComplete(a)
	}
	removed := slices.DeleteFunc(slices.Clone(o.record.Attachments), func(a state.Attachment) bool { return !interrupted[a.Batch] })
	if len(removed) == 0 {
		o.work().Removed()
		return
	}
	o.log.Info("removing attachments of an interrupted call", "count", len(removed))
	ctx, stop := phase(ctx, resetShare, "tearing down")
	defer stop()
	if err := o.remove(ctx, removed); err != nil {
		o.log.Warn("attachments of an interrupted call are still attached", "error", err)
	}
}

// remove detaches attachments and keeps the others. The record of an allocation
// that Extend recorded is removed with the last of them.
func (o *operation) remove(ctx context.Context, attachments []state.Attachment) error {
	if err := o.waitForOrphans(ctx); err != nil {
		return err
	}
	path, err := o.findNamespace()
	if err != nil {
		return err
	}
	failed := o.detachAll(ctx, path, attachments)
	if err := o.restoreAfterRemoval(); err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, o.forgetEmpty())
}
