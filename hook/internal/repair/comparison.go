// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/state"
)

// Compared compares attachments of an allocation with the host and the namespace as a repair does, and
// changes nothing: there is one comparison, of what traffic needs. Plugins that allocnet does not know
// are asked by their CHECK. The result lacks attachments that are not complete, and those that wanted
// leaves out.
func Compared(ctx context.Context, e *operation.Env, o *operation.Operation, ns kernel.Namespace, wanted func(state.Attachment) bool) []*Repairing {
	round, err := newRound(e, Request{Mode: ReportOnly})
	if err != nil {
		e.Config.Logger.Warn("isolation is not compared", "error", err)
	}
	for i, a := range o.Record.Attachments {
		if onrecord.IsComplete(a) && wanted(a) {
			round.inspectAttachment(ctx, o, i, ns)
		}
	}
	round.commit(ctx)
	round.isolate(ctx)
	round.askEach(func(p *Repairing) error { return p.ask(ctx) })
	return round.repairs
}

// askEach has the plugins asked that are still to be, some at once, and notes what that says.
func (r *repairRound) askEach(ask func(*Repairing) error) {
	var group errgroup.Group
	group.SetLimit(ParallelChecks)
	for _, p := range r.repairs {
		if p.asks {
			group.Go(func() error {
				p.judge(ask(p))
				p.asks = false
				return nil
			})
		}
	}
	_ = group.Wait() // each keeps its own
}

// IsRepairable tells whether something is missing, and a repair makes all of it.
func (p *Repairing) IsRepairable() bool {
	return len(p.Missing) > 0 && len(p.Unrepairable) == 0 && p.Err == nil
}

// Difference returns what was found as an error; nil if nothing is missing.
func (p *Repairing) Difference() error {
	var errs []error
	if broken := p.Broken(); broken != nil {
		errs = append(errs, broken)
	}
	if len(p.Missing) > 0 {
		errs = append(errs, inspect.Damaged("missing: %s: to make it: allocnet repair %s", strings.Join(p.Missing, "; "), p.operation.Record.Allocation.ID))
	}
	return errors.Join(append(errs, p.Err)...)
}

// Broken returns what no repair makes while the interface stays in place; nil if there is nothing.
func (p *Repairing) Broken() error {
	if len(p.Unrepairable) == 0 {
		return nil
	}
	return inspect.Damaged("broken: %s: only detaching and attaching it again helps", strings.Join(p.Unrepairable, "; "))
}

// ask runs CHECK of plugins that allocnet does not know.
func (p *Repairing) ask(ctx context.Context) (err error) {
	p.Skipped, err = CheckPlugins(ctx, p.operation, *p.Attachment())
	p.checkSucceeded = err == nil && p.Skipped == ""
	if p.reattaches { // the caller wants it
		return err
	}
	return p.trusted(err)
}

// trusted returns what the error of a CHECK proves. It proves damage only if CHECK has passed since the network
// was attached: some never pass.
func (p *Repairing) trusted(err error) error {
	if err == nil || !inspect.IsDamage(err) || p.Attachment().CheckPassed {
		return err
	}
	return fmt.Errorf("CHECK of its plugins fails, and has not passed since it was attached, so it may never pass: to attach it again nevertheless: allocnet repair --reattach %s: %s",
		p.operation.Record.Allocation.ID, err.Error())
}

// NewlySucceeded returns the attachments whose CHECK has passed for the first time.
func NewlySucceeded(all []*Repairing) (succeeded []state.Attachment) {
	for _, p := range all {
		if a := p.Attachment(); p.checkSucceeded && !a.CheckPassed {
			succeeded = append(succeeded, *a)
		}
	}
	return succeeded
}

// NoteSucceeded records attachments whose CHECK has passed. Without that a later failure proves no damage.
func NoteSucceeded(o *operation.Operation, succeeded []state.Attachment) {
	for i := range o.Record.Attachments {
		a := &o.Record.Attachments[i]
		isSame := func(p state.Attachment) bool { return p.Interface == a.Interface && p.Created.Equal(a.Created) }
		if len(o.Record.Damaged) > 0 || a.CheckPassed || !slices.ContainsFunc(succeeded, isSame) {
			continue
		}
		a.CheckPassed = true
		if err := o.Lock.Write(*a); err != nil {
			o.AttachmentLog(*a).Warn("it is not recorded that CHECK of its plugins has passed", "error", err)
		}
	}
}
