// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package check tells whether attachments are as they were set up: to people, to runtimes, and to those who list a host.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/repair"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/state"
)

// Checked is the outcome of Check for one attachment.
type Checked struct {
	Network   string `json:"network"`
	Interface string `json:"interface"`
	// Skipped says why the network's plugins were not asked: its version is
	// below 0.4.0 or it has disableCheck. Empty when they were.
	Skipped string `json:"skipped,omitempty"`
	// Unknown is whether Err says why it cannot be told now, not what is damaged.
	Unknown bool `json:"unknown,omitempty"`
	// Repairable is whether a repair makes all that is missing.
	Repairable bool `json:"repairable,omitempty"`
	// Err is nil when all is as it was set up.
	Err error `json:"-"`
}

// Check is Engine.Check.
func Check(ctx context.Context, e *operation.Env, id string) ([]Checked, error) {
	o, err := e.Begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer o.End()
	if !o.HasRecord() {
		return nil, fmt.Errorf("allocation %s %w", id, state.ErrNotFound)
	}
	damage := restoreForCheck(o)
	ns, err := o.Namespace()
	if err != nil { // a namespace that is gone is what the check found
		return nil, errdefs.As(errdefs.Failed, fmt.Errorf("allocation %s: %w", id, err))
	}
	interfaces, routes, err := kernel.Look(ns)
	if err != nil {
		return nil, fmt.Errorf("allocation %s: %w", id, err)
	}
	checked := make([]Checked, len(o.Record.Attachments))
	errs := make([]error, len(checked))
	for i, a := range o.Record.Attachments {
		checked[i] = Checked{Network: a.Network, Interface: a.Interface}
		if !onrecord.IsComplete(a) {
			setOutcome(o, &checked[i], a, inspect.NotComplete(a))
		}
	}
	compared := repair.Compared(ctx, e, o, ns, func(state.Attachment) bool { return true })
	repair.NoteSucceeded(o, repair.NewlySucceeded(compared))
	for _, p := range compared {
		c := &checked[p.At]
		c.Skipped = cmp.Or(p.Moved, p.Skipped)
		foreign := inspect.ForeignGateways(*p.Attachment(), routes)
		setOutcome(o, c, *p.Attachment(), errors.Join(p.Difference(), foreign))
		c.Repairable = foreign == nil && p.IsRepairable()
	}
	for i := range checked {
		errs[i] = checked[i].Err
	}
	return checked, errors.Join(append(errs, damage, inspect.Namespace(o.Record, interfaces, routes))...)
}

// setOutcome notes why an attachment is not as it was set up, unless err is nil.
func setOutcome(o *operation.Operation, c *Checked, a state.Attachment, err error) {
	if err != nil {
		c.Err, c.Unknown = o.Failure("check", a, 1, err), !inspect.IsDamage(err)
	}
}

// restoreForCheck completes a damaged record for CHECK, and reports the damage.
func restoreForCheck(o *operation.Operation) error {
	if len(o.Record.Damaged) == 0 {
		return nil
	}
	if err := o.Restore(); err != nil {
		o.Log.Warn("the damaged record is not completed", "error", err)
	}
	return o.DamagedRecord(nil)
}
