// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Setup attaches the allocation as the request says; see Hook.
func (e *Engine) Setup(ctx context.Context, r Request) (*Allocation, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	digest, err := r.digest()
	if err != nil {
		return nil, err
	}
	o, err := e.beginToAttach(ctx, r)
	if err != nil {
		return nil, err
	}
	defer o.end()
	if done, err := o.reuseOrReset(ctx, r, digest); done != nil || err != nil {
		return done, err
	}
	p, err := e.plan(r, digest)
	if err != nil {
		return nil, err
	}
	return o.setup(ctx, p)
}

// reuseOrReset deals with what an earlier Setup left. It returns the allocation
// when it stands as requested; otherwise nothing is left of it, unless an
// error says so.
func (o *operation) reuseOrReset(ctx context.Context, r Request, digest string) (*Allocation, error) {
	if !o.hasRecord() {
		return nil, o.refuseUnrecorded()
	}
	if err := o.repair(); err != nil {
		return nil, err
	}
	alive, same, err := o.compareNamespace(r.Netns)
	if err != nil {
		return nil, err
	}
	if alive && o.isSetUp() {
		if r.Fresh {
			return nil, fmt.Errorf("allocation %s %w", r.ID, ErrExists)
		}
		o.rollBackInterrupted(ctx)
		if !same || o.record.Allocation.Digest != digest {
			return nil, fmt.Errorf("allocation %s %w", r.ID, ErrConflict)
		}
		return describe(o.record)
	}
	return nil, o.tearDownEarlier(ctx)
}

// tearDownEarlier removes an earlier set-up, so that nothing is on record.
func (o *operation) tearDownEarlier(ctx context.Context) error {
	o.log.Info("tearing down what an earlier setup left", "netns", o.record.Allocation.Netns)
	ctx, stop := phase(ctx, resetShare, "tearing down")
	defer stop()
	if err := o.teardown(ctx); err != nil {
		return fmt.Errorf("tear down what an earlier setup left: %w", err)
	}
	o.reset()
	return nil
}

// setup executes a plan, and rolls back all of it on failure.
func (o *operation) setup(ctx context.Context, p *plan) (*Allocation, error) {
	ns, err := o.sandbox(p.allocation)
	if err == nil {
		defer ns.Close() //nolint:errcheck // read only
		err = o.attachAll(ctx, ns, p)
	}
	if err == nil {
		return describe(o.record)
	}
	// The caller may have given up; what was done is undone all the same. What
	// libcni's cache has of the allocation is not of this call.
	undoing, stop := Undoing(ctx)
	defer stop()
	if undo := o.removeRecorded(undoing); undo != nil {
		err = errors.Join(err, errdefs.As(errdefs.Failed, fmt.Errorf("undo: %w", undo)))
	}
	return nil, err
}

// attachAll writes down the attachments, makes them, and writes down what
// came of it.
func (o *operation) attachAll(ctx context.Context, ns Namespace, p *plan) error {
	ctx, stop := phase(ctx, attachShare, "attaching")
	defer stop()
	path := o.record.Allocation.Netns
	if err := p.checkInterfaces(path, ns); err != nil {
		return err
	}
	for _, a := range p.attachments {
		if err := o.ownCache(a); err != nil {
			return err
		}
	}
	before, err := ns.DefaultRoutes()
	if err != nil {
		return err
	}
	p.assignPreviousRoutes(before)
	if err := o.writeIntent(ctx, p); err != nil {
		return err
	}
	if err := o.holdForPlugins(); err != nil {
		return err
	}
	done, err := o.store.RLockHost(ctx)
	if err != nil {
		return err
	}
	defer done()
	added := o.record.Attachments[len(p.standing):]
	if err := o.addAll(ctx, path, added); err != nil {
		return err
	}
	routes, err := o.setDefaultRoutes(ns, p, before)
	if err != nil {
		return err
	}
	return o.finish(ns, routes, p)
}

// writeIntent records the attachments, if their ports are free.
func (o *operation) writeIntent(ctx context.Context, p *plan) error {
	release, err := o.claimPorts(ctx, p)
	if err != nil {
		return err
	}
	defer release()
	o.record.Attachments = slices.Concat(p.standing, p.attachments) // before any is written: undoing removes them all
	return o.recordPlan(o.record.Allocation, p.attachments)
}

// addAll runs ADD for attachments. The first failure stops pauses and what
// has not started; calls that run are left to end, because a plugin killed
// half way leaves more to undo.
func (o *operation) addAll(ctx context.Context, path string, attachments []state.Attachment) error {
	group, going := errgroup.WithContext(ctx)
	// A power cut spares nothing that the plugins make but leases on disk, so
	// the record may reach the disk while they run.
	group.Go(o.lock.Sync)
	group.Go(func() error {
		errs := make([]error, len(attachments))
		inOrder(len(attachments),
			func(i int) []int { return predecessors(attachments, i) },
			func(i int) {
				errs[i] = o.instrument("attach", &attachments[i], func() error { return o.add(ctx, going, &attachments[i], path) })
				if errs[i] != nil {
					group.Go(func() error { return errs[i] })
				}
			})
		return nil
	})
	return group.Wait()
}

// finish records what the namespace shows now that all is attached. This need
// not outlast a power cut, after which the namespace is gone and what is to be
// removed is on record already.
func (o *operation) finish(ns Namespace, routes []netns.Route, p *plan) error {
	interfaces, err := ns.Interfaces()
	if err != nil {
		return err
	}
	var group errgroup.Group
	for i := range o.record.Attachments {
		a := &o.record.Attachments[i]
		if i < len(p.standing) {
			group.Go(func() error { return o.updateGateways(a, routes) })
			continue
		}
		seen, err := inspect(*a, interfaces, routes, p.mappings[i-len(p.standing)])
		if err != nil {
			return o.failure("attach", *a, a.Attempts, err)
		}
		if a.Status, err = json.Marshal(seen); err != nil {
			return o.failure("attach", *a, a.Attempts, err)
		}
		group.Go(func() error { return o.lock.Write(*a) })
	}
	return group.Wait()
}

// updateGateways records the default routes that a standing attachment has now.
func (o *operation) updateGateways(a *state.Attachment, routes []netns.Route) error {
	if a.Status == nil {
		return nil
	}
	var seen recordedStatus
	if err := json.Unmarshal(a.Status, &seen); err != nil {
		return fmt.Errorf("interface %s: read recorded status: %w", a.Interface, err)
	}
	gateways := gatewaysBy(a.Interface, routes)
	if slices.Equal(seen.Gateways, gateways) {
		return nil
	}
	seen.Gateways = gateways
	var err error
	if a.Status, err = json.Marshal(seen); err != nil {
		return o.failure("attach", *a, a.Attempts, err)
	}
	return o.lock.Write(*a)
}
