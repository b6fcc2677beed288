// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/state"
)

// GCRequest says what one GC removes. The zero value removes everything for which
// records and namespaces prove that nothing needs it.
type GCRequest struct {
	// Live returns the allocations that live whatever their namespaces show. GC asks
	// when it begins, before it looks for leaks, and before it removes each batch of
	// them. After an error nothing more is removed. Default: records and namespaces
	// alone decide.
	Live func(ctx context.Context) (cleanup.Live, error)
	// Abandoned returns the allocations whose orchestrator has ended them and has left
	// their network namespaces. They are torn down, and the namespaces are removed. It
	// is called after Live. Default: none.
	Abandoned func() ([]string, error)
	// Network is the only one that is collected, with the allocations on it. Default:
	// all.
	Network string
	// DryRun looks for leaks and removes nothing. Default: what is found is removed.
	DryRun bool
	// Leaks says what happens to objects of the host that belong to no allocation on
	// record. Default: RemoveLeaks.
	Leaks LeakMode
	// Grace, Orchestrated and Progress are those of cleanup.Collector.
	Grace        time.Duration
	Orchestrated func(network, allocation string) bool
	Progress     func(done, of int)
}

func (r GCRequest) live(ctx context.Context) (cleanup.Live, error) {
	if r.Live == nil {
		return cleanup.NoneLive, nil
	}
	return r.Live(ctx)
}

func (r GCRequest) inScope(network string) bool { return r.Network == "" || r.Network == network }

// Collected is what a GC did.
type Collected struct {
	// TornDown are the allocations whose attachments were removed.
	TornDown []string `json:"tornDown"`
	// Networks are those whose plugins were asked to collect.
	Networks []string `json:"networks"`
	// Skipped says for each other network why not.
	Skipped map[string]string `json:"skipped,omitempty"`
	// Postponed says for each allocation whose teardown failed before, and is not
	// due again yet, when it is.
	Postponed map[string]string `json:"postponed,omitempty"`
	// Leaks is what was found on the host beside the records; nil if that was not
	// examined.
	Leaks *cleanup.Report `json:"-"`
}

// GC garbage-collects allocations; see Hook. It goes on past failures
// and joins them.
func (e *Engine) GC(ctx context.Context, r GCRequest) (*Collected, error) {
	if err := e.config.Host.Outside(); err != nil {
		return nil, err
	}
	live, err := r.live(ctx)
	if err != nil {
		return nil, err
	}
	c := &Collected{Skipped: map[string]string{}, Postponed: map[string]string{}}
	if !r.DryRun {
		err = e.collectRecorded(ctx, r, live, c)
	}
	return c, errors.Join(err, e.collectLeaks(ctx, r, c))
}

// collectRecorded collects what is on record, then has the networks' plugins
// collect.
func (e *Engine) collectRecorded(ctx context.Context, r GCRequest, live cleanup.Live, c *Collected) error {
	if err := e.cleanBoot(ctx); err != nil {
		e.config.Logger.Warn("what earlier boots left is not removed yet", "error", err)
	}
	return errors.Join(e.tearDownAbandoned(ctx, r, c), e.tearDownDead(ctx, r, live, c), e.gcNetworks(ctx, r, live, c))
}

// tearDownDead tears down the allocations on record that are not alive, several
// at a time.
func (e *Engine) tearDownDead(ctx context.Context, r GCRequest, live cleanup.Live, c *Collected) error {
	ids, err := e.store.IDs()
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return live(id) != "" })
	var group errgroup.Group
	group.SetLimit(maxTeardowns)
	torn := make([]bool, len(ids))
	next := make([]time.Time, len(ids))
	errs := make([]error, len(ids))
	for i, id := range ids {
		group.Go(func() error {
			torn[i], next[i], errs[i] = e.collect(ctx, id, r.inScope)
			return nil
		})
	}
	_ = group.Wait() // errors are in errs: all are wanted
	for i, id := range ids {
		switch {
		case errs[i] != nil:
			errs[i] = fmt.Errorf("allocation %s: %w", id, errs[i])
		case torn[i]:
			c.TornDown = append(c.TornDown, id)
		case !next[i].IsZero():
			c.Postponed[id] = postponed(next[i])
		}
	}
	return errors.Join(errs...)
}

func postponed(next time.Time) string {
	return "its teardown failed: the next attempt is due after " + next.UTC().Format(time.RFC3339)
}

// lockPatience is how long GC waits for an allocation's lock: a child that a killed
// process had just forked holds it until it executes its program.
const lockPatience = time.Second

// beginUnlocked is begin for an allocation without a call in flight. Nil: there is one.
func (e *Engine) beginUnlocked(ctx context.Context, id string) (*operation, error) {
	waiting, stop := context.WithTimeoutCause(ctx, lockPatience, state.ErrLocked)
	defer stop()
	o, err := e.begin(waiting, id)
	if errors.Is(err, state.ErrLocked) {
		return nil, nil
	}
	return o, err
}

// collect tears an allocation down when its namespace is gone, its set-up was
// interrupted (the lock is free, so no call is in flight), an earlier teardown did
// not finish, or its owner is gone. Of one that is set up it removes the attachments
// that a later call has made or removed in part. One that is locked is left to the
// next GC, and so is a teardown that failed; next is when it is due again, zero if
// nothing is postponed.
func (e *Engine) collect(ctx context.Context, id string, scope func(network string) bool) (torn bool, next time.Time, err error) {
	o, err := e.beginUnlocked(ctx, id)
	if o == nil || err != nil {
		return false, next, err
	}
	defer o.end()
	if !o.hasRecord() { // killed after the directory was made or before it was removed
		return false, next, o.lock.Clear()
	}
	inScope := slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool { return scope(a.Network) })
	if !inScope && len(o.record.Attachments) > 0 {
		return false, next, nil
	}
	if now := time.Now(); !due(o.record, now) {
		return false, nextAttempt(o.record, now), nil
	}
	o.reason = ReasonGC
	torn, err = o.recoverOrphan(ctx)
	return torn, next, err
}

// recoverOrphan is recoverInterrupted, and a teardown when the owner is gone.
func (o *operation) recoverOrphan(ctx context.Context) (torn bool, err error) {
	if torn, err := o.recoverInterrupted(ctx); torn || err != nil || o.isUnknown() {
		return torn, err
	}
	if gone, err := o.ownerGone(ctx); !gone || err != nil {
		return false, err
	}
	return true, o.teardown(ctx)
}

// ownerGone is asked under the allocation's lock: nothing else makes the same
// allocation meanwhile.
func (o *operation) ownerGone(ctx context.Context) (bool, error) {
	if o.config.OwnerGone == nil || o.record.Allocation.Owner == "" {
		return false, nil
	}
	return o.config.OwnerGone(ctx, o.record.Allocation.Owner)
}
