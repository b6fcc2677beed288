// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/hook/internal/step"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// Setup attaches the allocation as the request says; see Hook.
func (e *Engine) Setup(ctx context.Context, r Request) (*Allocation, error) {
	started := time.Now()
	a, err := e.setUp(ctx, r)
	e.reportAttach(r, started, err)
	return a, err
}

// SetupOrExtend is Setup, and Extend if an allocation is set up with another request and
// this one names neither a primary nor a namespace.
func (e *Engine) SetupOrExtend(ctx context.Context, r Request) (*Allocation, error) {
	started := time.Now()
	a, err := e.setUp(ctx, r)
	if errors.Is(err, ErrConflict) && r.Primary == nil && r.Netns == "" {
		a, err = e.attachFurther(ctx, r)
	}
	e.reportAttach(r, started, err)
	return a, err
}

func (e *Engine) setUp(ctx context.Context, r Request) (*Allocation, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	digest, err := r.Digest()
	if err != nil {
		return nil, err
	}
	o, err := e.beginToAttach(ctx, r)
	if err != nil {
		return nil, err
	}
	defer o.end()
	if existing, err := o.reuseOrReset(ctx, r, digest); existing != nil || err != nil {
		return existing, err
	}
	p, err := e.plan(r, digest)
	if err != nil {
		return nil, err
	}
	return o.carryOut(ctx, p)
}

// reuseOrReset returns an existing allocation that is set up as requested, and tears down
// an interrupted one. Without an error and an allocation nothing is on record.
func (o *operation) reuseOrReset(ctx context.Context, r Request, digest string) (*Allocation, error) {
	if !o.hasRecord() {
		return nil, o.refuseUnrecorded()
	}
	if err := o.repairRecord(); err != nil {
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
			return nil, fmt.Errorf("allocation %s %w: %s", r.ID, ErrConflict, plan.Difference(o.record, r, same))
		}
		return describe(o.record)
	}
	return nil, o.tearDownEarlier(ctx)
}

// tearDownEarlier removes an earlier set-up, so that nothing is on record.
func (o *operation) tearDownEarlier(ctx context.Context) error {
	o.log.Info("tearing down an earlier set-up", "netns", o.record.Allocation.Netns)
	defer o.because(ReasonReset)()
	ctx, stop := phase(ctx, resetShare, "tearing down")
	defer stop()
	if err := o.teardown(ctx); err != nil {
		return fmt.Errorf("tear down an earlier set-up: %w", err)
	}
	o.reset()
	return nil
}

// carryOut executes a plan, and rolls back all of it on failure.
func (o *operation) carryOut(ctx context.Context, p *plan.Plan) (*Allocation, error) {
	ns, err := o.sandbox(p.Allocation)
	if err == nil {
		defer ns.Close() //nolint:errcheck // read only
		err = o.attachAll(ctx, ns, p)
	}
	if err == nil {
		return o.describeNew()
	}
	// The caller may have cancelled; the rollback needs a context of its own. Results in
	// libcni's cache that are not on record are not of this call.
	undoing, stop := Undoing(ctx)
	defer stop()
	defer o.because(ReasonRollback)()
	if undo := o.removeRecorded(undoing); undo != nil {
		err = errors.Join(err, errdefs.As(errdefs.Failed, fmt.Errorf("undo: %w", undo)))
	}
	return nil, err
}

// plan resolves a request.
func (e *Engine) plan(r Request, digest string) (*plan.Plan, error) {
	a, err := e.config.allocation(r, state.ModeSetup, digest)
	if err != nil {
		return nil, err
	}
	return plan.New(a, r, e.facts())
}

// facts are those of the engine for a plan.
func (e *Engine) facts() plan.Facts {
	return plan.Facts{
		Networks:   e.config.resolve,
		Policy:     func() (policy.Source, error) { return policy.Load(e.config.PolicyFile) },
		PluginDirs: e.config.PluginDirs,
		Host:       e.config.Host,
		Record:     e.store.Read,
		UnpinnedMTU: func(bridge string) int {
			return step.UnpinnedMTU(context.Background(), e.store, e.config.Logger, bridge, "", "")
		},
		WhyPlugins: e.config.inProcess,
	}
}
