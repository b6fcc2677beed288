// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package attach

import (
	"context"
	"sync"
	"time"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/hook/internal/step"
	"github.com/allocnet/allocnet/state"
)

// attachAll records the attachments of a plan, runs ADD for all, and records what they
// have then.
func attachAll(ctx context.Context, o *operation.Operation, ns kernel.Namespace, p *plan.Plan) error {
	ctx, stop := operation.Phase(ctx, operation.AttachShare, "attaching")
	defer stop()
	if err := checkUnused(o, ns, p); err != nil {
		return err
	}
	before, err := ns.DefaultRoutes()
	if err != nil {
		return err
	}
	p.AssignPreviousRoutes(before)
	if err := p.AssignTables(ns.UsedTables); err != nil {
		return err
	}
	if err := writeIntent(ctx, o, p); err != nil {
		return err
	}
	w := o.WorkIn(ns)
	if err := w.Prepare(p.Attachments()); err != nil {
		return err
	}
	if err := o.HoldForPlugins(); err != nil {
		return err
	}
	unlock, err := o.Store.RLockHost(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	chains, err := addAll(ctx, o, w, p)
	if err != nil {
		return err
	}
	if err := commitAdded(ctx, o, p, chains); err != nil {
		return err
	}
	if err := w.Finish(ctx, p); err != nil {
		return err
	}
	if err := finish(o, ns, p); err != nil {
		return err
	}
	if err := isolate.Join(ctx, o, p.Attachments()); err != nil {
		return err
	}
	return isolate.Advertised(ctx, o, p.Attachments())
}

// checkUnused refuses attachments whose interface or cache file another one has.
func checkUnused(o *operation.Operation, ns kernel.Namespace, p *plan.Plan) error {
	present, err := ns.Interfaces()
	if err != nil {
		return err
	}
	if err := p.CheckInterfaces(o.Record.Allocation.Netns, present); err != nil {
		return err
	}
	for _, added := range p.Added {
		if err := o.Config.Cache().RequireOwn(*added.Attachment); err != nil {
			return err
		}
	}
	return nil
}

// writeIntent records the attachments if their ports are free.
func writeIntent(ctx context.Context, o *operation.Operation, p *plan.Plan) error {
	release, err := claimPorts(ctx, o, p)
	if err != nil {
		return err
	}
	defer release()
	p.AddTo(&o.Record) // before any is written: a rollback removes them all
	return o.Lock.Begin(o.Record.Allocation, p.Attachments())
}

// addAll runs ADD for the attachments of a plan. The first failure ends pauses, and
// keeps other calls from starting. Running calls continue to their end, because a
// killed plugin leaves more to remove. The result has the chain of each attachment.
func addAll(ctx context.Context, o *operation.Operation, w *step.Work, p *plan.Plan) ([]*operation.Call, error) {
	abort, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var failed sync.Once
	var first error
	fail := func(err error) {
		failed.Do(func() { first = err })
		stop(err) // now: an attachment that comes after this one begins next
	}
	var syncing sync.WaitGroup
	// Of what plugins make only leases outlast a power cut, so the record may reach the
	// disk while they run.
	syncing.Go(func() {
		if err := o.Lock.Sync(); err != nil {
			fail(err)
		}
	})
	attachments, chains := p.Attachments(), make([]*operation.Call, len(p.Added))
	// With abort: add must see the end that ends the waiting.
	operation.InOrder(abort, len(attachments), func(i int) []int { return onrecord.Predecessors(attachments, i) }, func(i int) {
		a := p.Added[i].Attachment
		attach := func() (err error) {
			if chains[i], err = Add(ctx, abort, o, a, p.Added[i].List); err != nil {
				return err
			}
			return w.Added(a)
		}
		if err := o.Instrument(config.OpAttach, a, attach); err != nil {
			fail(err)
		}
	})
	syncing.Wait()
	return chains, first
}

// finish records what the namespace shows after all attachments succeeded. This need
// not outlast a power cut: the namespace is gone after one, and what is to be removed
// is on record already.
func finish(o *operation.Operation, ns kernel.Namespace, p *plan.Plan) error {
	at, err := o.Config.OpenNamespace(o.Record.Allocation) // the path on record leads to it
	if err != nil {
		return err
	}
	if err := at.Close(); err != nil {
		return err
	}
	interfaces, routes, err := kernel.Look(ns)
	if err != nil {
		return err
	}
	for _, added := range p.Added {
		a := added.Attachment
		if err := onrecord.RequirePresent(*a, interfaces); err != nil {
			return o.Failure("attach", *a, a.Attempts, err)
		}
		a.Phase, a.Updated = state.Attached, time.Now().UTC()
		inspect.NoteDevice(a, added.List, interfaces)
		if a.Status, err = onrecord.EncodeStatus(*a, interfaces, routes, added.Mappings); err != nil {
			return o.Failure("attach", *a, a.Attempts, err)
		}
	}
	if err := o.Work().Keep(nil); err != nil {
		return err
	}
	return o.Lock.Write(p.Attachments()...)
}
