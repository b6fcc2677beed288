// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// refuseUnrecorded returns an error if libcni's cache has attachments of the
// allocation that exist in its namespace. New ones would have the same container IDs, and
// removing either would remove the plugins' objects of both.
func (o *operation) refuseUnrecorded() error {
	lost := newOperation(o.config, o.store, state.Record{Allocation: state.Allocation{ID: o.record.Allocation.ID}})
	defer lost.opened.close()
	if err := lost.loadFromCache(); err != nil {
		return err
	}
	if len(lost.record.Attachments) == 0 {
		return nil
	}
	ns, err := lost.namespace()
	if errors.Is(err, netns.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ns.Close() //nolint:errcheck // read only
	interfaces, err := ns.Interfaces()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(lost.record.Attachments, func(a state.Attachment) bool { return onrecord.Shows(a, interfaces) }) {
		id := o.record.Allocation.ID
		return errdefs.As(errdefs.Conflict, fmt.Errorf("allocation %s exists in %s, and its record is lost: to remove it: allocnet detach %s", id, lost.record.Allocation.Netns, id))
	}
	return nil
}
