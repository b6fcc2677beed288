// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"sync"
	"time"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/hook/internal/step"
	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/state"
)

// attachAll records the attachments of a plan, runs ADD for all, and records what they
// have then.
func (o *operation) attachAll(ctx context.Context, ns kernel.Namespace, p *plan.Plan) error {
	ctx, stop := phase(ctx, attachShare, "attaching")
	defer stop()
	if err := o.checkUnused(ns, p); err != nil {
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
	if err := o.writeIntent(ctx, p); err != nil {
		return err
	}
	w := o.workIn(ns)
	if err := w.Prepare(p.Attachments()); err != nil {
		return err
	}
	if err := o.holdForPlugins(); err != nil {
		return err
	}
	unlock, err := o.store.RLockHost(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	chains, err := o.addAll(ctx, w, p)
	if err != nil {
		return err
	}
	if err := o.commitAdded(ctx, p, chains); err != nil {
		return err
	}
	if err := w.Finish(p); err != nil {
		return err
	}
	return o.finish(ns, p)
}

// checkUnused refuses attachments whose interface or cache file another one has.
func (o *operation) checkUnused(ns kernel.Namespace, p *plan.Plan) error {
	present, err := ns.Interfaces()
	if err != nil {
		return err
	}
	if err := p.CheckInterfaces(o.record.Allocation.Netns, present); err != nil {
		return err
	}
	for _, added := range p.Added {
		if err := o.config.cache().RequireOwn(*added.Attachment); err != nil {
			return err
		}
	}
	return nil
}

// writeIntent records the attachments if their ports are free.
func (o *operation) writeIntent(ctx context.Context, p *plan.Plan) error {
	release, err := o.claimPorts(ctx, p)
	if err != nil {
		return err
	}
	defer release()
	p.AddTo(&o.record) // before any is written: a rollback removes them all
	return o.lock.Begin(o.record.Allocation, p.Attachments())
}

// addAll runs ADD for the attachments of a plan. The first failure ends pauses, and
// keeps other calls from starting. Running calls continue to their end, because a
// killed plugin leaves more to remove. The result has the chain of each attachment.
func (o *operation) addAll(ctx context.Context, w *step.Work, p *plan.Plan) ([]*chain, error) {
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
		if err := o.lock.Sync(); err != nil {
			fail(err)
		}
	})
	attachments, chains := p.Attachments(), make([]*chain, len(p.Added))
	// With abort: add must see the end that ends the waiting.
	inOrder(abort, len(attachments), func(i int) []int { return onrecord.Predecessors(attachments, i) }, func(i int) {
		a := p.Added[i].Attachment
		attach := func() (err error) {
			if chains[i], err = o.add(ctx, abort, a); err != nil {
				return err
			}
			return w.Added(a)
		}
		if err := o.instrument(OpAttach, a, attach); err != nil {
			fail(err)
		}
	})
	syncing.Wait()
	return chains, first
}

// finish records what the namespace shows after all attachments succeeded. This need
// not outlast a power cut: the namespace is gone after one, and what is to be removed
// is on record already.
func (o *operation) finish(ns kernel.Namespace, p *plan.Plan) error {
	if err := o.requirePath(); err != nil {
		return err
	}
	interfaces, err := ns.Interfaces()
	if err != nil {
		return err
	}
	routes, err := ns.DefaultRoutes()
	if err != nil {
		return err
	}
	for _, added := range p.Added {
		a := added.Attachment
		if err := onrecord.RequirePresent(*a, interfaces); err != nil {
			return o.failure("attach", *a, a.Attempts, err)
		}
		a.Phase, a.Updated = state.Attached, time.Now().UTC()
		inspect.NoteDevice(a, interfaces)
		if a.Status, err = onrecord.EncodeStatus(*a, interfaces, routes, added.Mappings); err != nil {
			return o.failure("attach", *a, a.Attempts, err)
		}
	}
	if err := o.work().Keep(nil); err != nil {
		return err
	}
	return o.lock.Write(p.Attachments()...)
}

// work is the allocation for steps.
func (o *operation) work() *step.Work {
	return &step.Work{
		Namespace: o.namespace, Host: o.config.Host, Store: o.store, Record: &o.record, Defaults: &o.defaults,
		Write: o.lock.Write, WriteAllocation: o.lock.WriteAllocation, Cache: func(a state.Attachment) error { return o.config.cache().Write(a, o.record.Allocation.Netns) }, FileOf: o.config.fileOf, Log: o.log,
		ResolvConf: o.config.resolvConf(o.record.Allocation.ID), HostResolvConf: o.config.HostResolvConf,
		DNS: func(r state.Record) (resolvconf.Config, error) {
			a, err := describe(r)
			if err != nil {
				return resolvconf.Config{}, err
			}
			return resolvconf.Config(a.DNS), nil
		},
		Fail: func(a state.Attachment, err error) error { return o.failure("attach", a, a.Attempts, err) },
	}
}

// workIn is work for a namespace that is open.
func (o *operation) workIn(ns kernel.Namespace) *step.Work {
	w := o.work()
	w.Namespace = func() (kernel.Namespace, error) { return ns, nil }
	return w
}
