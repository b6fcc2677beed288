// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package lease keeps the leases of DHCP of attachments: ADD records what it asks for and gets, the agent extends what is on record,
// and has the namespace be as the lease is. Addresses by router advertisements are the kernel's: what it has is recorded.
//
// All that is done follows from records. A lease is on record before its address is used, and a change of it before the namespace is
// changed. So a keeper that is killed at any instant has one after it that goes on.
package lease

import (
	"context"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/state"
)

// Seam returns what records the leases of an attachment in ADD.
func Seam(o *operation.Operation, a *state.Attachment) *plugin.Lease {
	of := o.Record.Allocation.Identity
	return &plugin.Lease{
		Recorded: a.Leased(), Namespace: of.Namespace, Job: of.Job, Group: of.Group, Task: a.Task,
		Record: func(l dhcp.Lease) error {
			a.SetLease(l)
			return o.Lock.Write(*a)
		},
	}
}

// Release has the record of an attachment say that its leases were given back. Their addresses are asked for again.
func Release(a *state.Attachment) {
	for _, l := range a.Leased() {
		l.Lost, l.Former = true, nil
		a.SetLease(l)
	}
}

// PrepareRelease has nothing else be asked of servers before DEL gives leases back, and logs those of which it cannot: without the namespace at
// path there is no interface to do so by.
func PrepareRelease(ctx context.Context, o *operation.Operation, a state.Attachment, path string) {
	if len(a.Leased()) > 0 {
		awaitSent(ctx, o)
	}
	for _, l := range a.Leased() {
		if l.Lost || path != "" {
			continue
		}
		o.AttachmentLog(a).Info("the lease is not released, because there is no interface any more: it ends by itself", "address", l.Address, "server", l.Server, "expires", l.Expires())
	}
}
