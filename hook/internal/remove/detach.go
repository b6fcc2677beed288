// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/state"
)

// NotAttachedError is an interface that is not an attachment of the allocation.
type NotAttachedError struct {
	Allocation string
	Interface  string
	// Attached are the interfaces of its attachments.
	Attached []string
}

func (e *NotAttachedError) Error() string {
	return fmt.Sprintf("interface %q is not an attachment of allocation %s, which has %s", e.Interface, e.Allocation, strings.Join(e.Attached, ", "))
}

// Kind is that of package errdefs.
func (*NotAttachedError) Kind() errdefs.Kind { return errdefs.Refused }

// Detach is Engine.Detach.
func Detach(ctx context.Context, e *operation.Env, id, iface string) error {
	return report(ctx, e, id, func(o *operation.Operation) error { return detachOne(ctx, o, iface) })
}

func detachOne(ctx context.Context, o *operation.Operation, iface string) error {
	id := o.Record.Allocation.ID
	if !o.HasRecord() {
		return fmt.Errorf("allocation %s %w", id, state.ErrNotFound)
	}
	if err := complete(o); err != nil {
		return err
	}
	var attached []string
	for _, a := range o.Record.Attachments {
		attached = append(attached, a.Interface)
	}
	at := slices.Index(attached, iface)
	if at < 0 {
		o.Work().Removed()
		return &NotAttachedError{id, iface, attached}
	}
	a := o.Record.Attachments[at]
	if a.Batch == onrecord.SetupBatch && o.Record.Allocation.Mode == state.ModeSetup && (a.Primary || len(onrecord.OfBatch(o.Record.Attachments, onrecord.SetupBatch)) == 1) {
		return &plan.RequestError{Field: "interface", Value: iface, Reason: "it was attached with the allocation: detach the whole allocation"}
	}
	return removeAlone(ctx, o, []state.Attachment{a})
}

// Release is Engine.Release.
func Release(ctx context.Context, e *operation.Env, id, task string) error {
	return report(ctx, e, id, func(o *operation.Operation) error {
		if err := complete(o); err != nil {
			return err
		}
		attached := slices.DeleteFunc(slices.Clone(o.Record.Attachments), func(a state.Attachment) bool { return a.Task != task })
		if len(attached) == 0 { // or a killed Release had not yet removed the record
			o.Work().Removed()
			return forgetEmpty(ctx, o)
		}
		return removeAlone(ctx, o, attached)
	})
}

// complete repairs a damaged record, and completes a lost one.
func complete(o *operation.Operation) error {
	if err := o.RepairRecord(); err != nil {
		return err
	}
	return o.LoadFromCache()
}

// removeAlone removes attachments, each in a batch of its own.
func removeAlone(ctx context.Context, o *operation.Operation, attachments []state.Attachment) error {
	for i := range attachments {
		attachments[i].Batch = state.Batch{Kind: state.BatchDetach, ID: attachments[i].Interface}
	}
	return Attachments(ctx, o, attachments)
}
