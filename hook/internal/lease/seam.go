// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package lease keeps the leases of DHCP of attachments: ADD records what it asks for and gets, the agent extends what is on record,
// and has the namespace be as the lease is. Addresses by router advertisements are the kernel's: what it has is recorded.
//
// All that is done follows from records. A lease is on record before its address is used, and a change of it before the namespace is
// changed. So a keeper that is killed at any instant has one after it that goes on.
package lease

import (
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/state"
)

// Seam returns what records the lease of an attachment in ADD.
func Seam(o *operation.Operation, a *state.Attachment) *plugin.Lease {
	of := o.Record.Allocation.Identity
	return &plugin.Lease{
		Recorded: a.DHCP, Namespace: of.Namespace, Job: of.Job, Group: of.Group, Task: a.Task,
		Record: func(l dhcp.Lease) error {
			a.DHCP = &l
			return o.Lock.Write(*a)
		},
	}
}

// Released returns the record of a lease that was given back. Its address is asked for again.
func Released(l *dhcp.Lease) *dhcp.Lease {
	if l == nil {
		return nil
	}
	released := *l
	released.Lost, released.Former = true, nil
	return &released
}

// ReportUnreleased logs before DEL that a lease is not given back: without the namespace at path there is no interface to do so by.
func ReportUnreleased(o *operation.Operation, a state.Attachment, path string) {
	if l := a.DHCP; l != nil && !l.Lost && path == "" {
		o.AttachmentLog(a).Info("the lease is not released, because there is no interface any more: it ends by itself", "address", l.Address, "server", l.Server, "expires", l.Expires())
	}
}
