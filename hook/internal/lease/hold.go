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

// errChanged is that a lease is not to be asked for any more.
var errChanged = errors.New("the record of the attachment has changed")

// hold is what keeps the work on one lease and the end of its attachment apart: a server that is asked after the release of a lease gives it
// again. The allocation is not locked meanwhile: a server may be silent, and a detach does not wait for that. So a server that has been asked for
// another lease before the detach may give one of no attachment, until it ends.
type hold struct {
	keeper     *keeper
	allocation string
	attachment state.Attachment
	before     dhcp.Lease
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
