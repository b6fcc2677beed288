// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
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

// Detach removes one attachment of an allocation that stays. What cannot be
// removed stays on record as pending, and the next Detach, Extend, GC or Teardown
// retries it. The primary, and the last of what Setup attached, go with
// Teardown only. An interface that is not attached, so also a second call, is a
// *NotAttachedError; an allocation that is not on record is state.ErrNotFound.
func (e *Engine) Detach(ctx context.Context, id, iface string) error {
	started := time.Now()
	err := e.detachOne(ctx, id, iface)
	e.reportDetach(id, started, err)
	return err
}

func (e *Engine) detachOne(ctx context.Context, id, iface string) error {
	o, err := e.begin(ctx, id)
	if err != nil {
		return err
	}
	defer o.end()
	if !o.hasRecord() {
		return fmt.Errorf("allocation %s %w", id, state.ErrNotFound)
	}
	if err := o.repairRecord(); err != nil {
		return err
	}
	if err := o.loadFromCache(); err != nil {
		return err
	}
	var attached []string
	for _, a := range o.record.Attachments {
		attached = append(attached, a.Interface)
	}
	at := slices.Index(attached, iface)
	if at < 0 {
		o.work().Removed()
		return &NotAttachedError{id, iface, attached}
	}
	a := o.record.Attachments[at]
	if a.Batch == onrecord.SetupBatch && o.record.Allocation.Mode == state.ModeSetup && (a.Primary || len(o.batch(onrecord.SetupBatch)) == 1) {
		return &RequestError{Field: "interface", Value: iface, Reason: "it was attached with the allocation: detach the whole allocation"}
	}
	return o.removeAlone(ctx, []state.Attachment{a})
}

// Release removes all that was attached for a task. An unknown allocation, a
// task without attachments and a missing namespace are not errors, nor is a
// second call.
func (e *Engine) Release(ctx context.Context, id, task string) error {
	started := time.Now()
	err := e.release(ctx, id, task)
	e.reportDetach(id, started, err)
	return err
}

func (e *Engine) release(ctx context.Context, id, task string) error {
	o, err := e.begin(ctx, id)
	if err != nil {
		return err
	}
	defer o.end()
	if err := o.repairRecord(); err != nil {
		return err
	}
	if err := o.loadFromCache(); err != nil {
		return err
	}
	attached := slices.DeleteFunc(slices.Clone(o.record.Attachments), func(a state.Attachment) bool { return a.Task != task })
	if len(attached) == 0 { // or a killed Release had not yet removed the record
		o.work().Removed()
		return o.forgetEmpty()
	}
	return o.removeAlone(ctx, attached)
}

// removeAlone removes attachments, each in a batch of its own.
func (o *operation) removeAlone(ctx context.Context, attachments []state.Attachment) error {
	for i := range attachments {
		attachments[i].Batch = state.Batch{Kind: state.BatchDetach, ID: attachments[i].Interface}
	}
	return o.remove(ctx, attachments)
}
