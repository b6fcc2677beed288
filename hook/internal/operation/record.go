// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// HasRecord tells whether anything is recorded of the allocation.
func (o *Operation) HasRecord() bool { return o.Record.Allocation.Mode != "" }

// IsSetUp tells whether the allocation is complete without the batches of Extend.
func (o *Operation) IsSetUp() bool {
	if len(o.Record.Damaged) > 0 {
		return false
	}
	switch o.Record.Allocation.Mode {
	case state.ModeSetup:
		attached := onrecord.OfBatch(o.Record.Attachments, onrecord.SetupBatch)
		return len(attached) > 0 && !slices.ContainsFunc(attached, func(a state.Attachment) bool { return !onrecord.IsComplete(a) })
	case state.ModeExtend:
		return o.Record.Allocation.NetnsID != ""
	}
	return false
}

// Reset empties the record in memory, for an allocation that has none any more.
func (o *Operation) Reset() {
	o.closeHold()
	o.Record = state.Record{Allocation: state.Allocation{ID: o.Record.Allocation.ID}}
}

// HoldForPlugins opens the directory that plugins inherit; see state.Locked.Hold.
// Attachments from libcni's cache have no directory yet.
func (o *Operation) HoldForPlugins() error {
	if o.Hold != nil || len(o.Record.Attachments) == 0 {
		return nil
	}
	var err error
	if o.Hold, err = o.Lock.Hold(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := o.Lock.Begin(o.Record.Allocation, nil); err != nil {
		return err
	}
	o.Hold, err = o.Lock.Hold()
	return err
}
