// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/cache"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// hasRecord tells whether anything is recorded of the allocation.
func (o *operation) hasRecord() bool { return o.record.Allocation.Mode != "" }

// batch returns the attachments of a batch.
func (o *operation) batch(b state.Batch) []state.Attachment {
	return onrecord.OfBatch(o.record.Attachments, b)
}

// isSetUp tells whether the allocation is complete without the batches of Extend.
func (o *operation) isSetUp() bool {
	if len(o.record.Damaged) > 0 {
		return false
	}
	switch o.record.Allocation.Mode {
	case state.ModeSetup:
		attached := o.batch(onrecord.SetupBatch)
		return len(attached) > 0 && !slices.ContainsFunc(attached, func(a state.Attachment) bool { return !onrecord.IsComplete(a) })
	case state.ModeExtend:
		return o.record.Allocation.NetnsID != ""
	}
	return false
}

// reload reads the record again.
func (o *operation) reload() error {
	record, err := o.lock.Load()
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return err
	}
	record.Allocation.ID = o.record.Allocation.ID
	o.record = record
	return nil
}

// reset empties the record in memory, for an allocation that has none any more.
func (o *operation) reset() {
	o.closeHold()
	o.record = state.Record{Allocation: state.Allocation{ID: o.record.Allocation.ID}}
}

// forgetEmpty drops a record that Extend made, once it has no attachments.
func (o *operation) forgetEmpty() error {
	if len(o.record.Attachments) > 0 || o.record.Allocation.Mode == state.ModeSetup || len(o.record.Damaged) > 0 {
		return nil
	}
	o.reset()
	return o.lock.Clear()
}

// cache is libcni's cache.
func (c Config) cache() cache.Dir { return cache.Dir(c.CacheDir) }
