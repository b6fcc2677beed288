// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"time"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/state"
)

var (
	// errChanged is that a lease is not to be asked for any more.
	errChanged = errors.New("the record of the attachment has changed")
	// errBusy is that something else has the allocation for longer than servers are asked, which says nothing of the lease.
	errBusy = errors.New("the allocation is locked")
)

// hold is what keeps the work on one lease and the end of its attachment apart: a server that is asked after the release of a lease gives it
// again, and one whose answer is not recorded keeps it.
type hold struct {
	keeper     *keeper
	allocation string
	attachment state.Attachment
	before     dhcp.Lease
	// locked is the allocation from when a server may give another lease until that is on record; nil: it is not locked.
	locked *operation.Operation
}

// find returns which attachment of a record has the lease still; -1: none.
func (h *hold) find(r state.Record) int {
	return slices.IndexFunc(r.Attachments, func(a state.Attachment) bool {
		return a.Interface == h.attachment.Interface && a.Created.Equal(h.attachment.Created) && isKept(a, h.before) && reflect.DeepEqual(a.LeaseOf(h.before.Family()), &h.before)
	})
}

// guard sends a message about the lease while it is on record.
func (h *hold) guard(ctx context.Context) func(send func() error) error {
	return func(send func() error) error {
		var record state.Record
		unlock, err := h.keeper.env.Store.Leases().LockSending(ctx, h.allocation)
		if err == nil {
			defer unlock()
			record, err = h.keeper.env.Store.Read(h.allocation)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, state.ErrNotFound), err == nil && h.find(record) < 0: // without its mark it has no leases
			return errChanged
		case err != nil: // the lease may have ended, and is lost then
			return err
		}
		return send()
	}
}

// lock locks the allocation before a server may give another lease.
func (h *hold) lock(ctx context.Context) error {
	if h.locked != nil {
		return nil
	}
	o, err := h.keeper.env.Begin(ctx, h.allocation)
	if ctx.Err() != nil && err != nil {
		return errors.Join(errBusy, err)
	}
	if err != nil {
		return err
	}
	h.locked = o
	if h.find(o.Record) < 0 {
		return errChanged
	}
	return nil
}

// do calls do with the allocation, which is locked.
func (h *hold) do(ctx context.Context, do func(*operation.Operation) error) error {
	if h.locked != nil {
		return do(h.locked)
	}
	return h.keeper.env.Locked(ctx, h.allocation, do)
}

func (h *hold) end() {
	if h.locked != nil {
		h.locked.End()
	}
}

// sendingTimeout is how long a detach waits for a message that is being sent: the process that sends it may be stopped.
const sendingTimeout = time.Second

// awaitSent has no keeper send messages about leases that the record does not have by now.
func awaitSent(ctx context.Context, o *operation.Operation) {
	ctx, stop := context.WithTimeout(ctx, sendingTimeout)
	defer stop()
	if unlock, err := o.Store.Leases().LockSending(ctx, o.Record.Allocation.ID); err == nil {
		unlock()
	}
}
