// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/netns"
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

// LeakMode says what a GC does about leaks.
type LeakMode int

const (
	// RemoveLeaks removes them by force.
	RemoveLeaks LeakMode = iota
	// ReportLeaks leaves them.
	ReportLeaks
	// IgnoreLeaks does not look for them.
	IgnoreLeaks
)

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

// Leaks finds leaks, and removes them unless the request says otherwise.
type Leaks func(ctx context.Context, r GCRequest, live cleanup.Live) (*cleanup.Report, error)

type collection struct {
	env     *operation.Env
	request GCRequest
	live    cleanup.Live
	leaks   Leaks
	*Collected
}

// GC is Engine.GC, where leaks is what finds leaks.
func GC(ctx context.Context, e *operation.Env, r GCRequest, leaks Leaks) (*Collected, error) {
	if err := e.Config.Host.Outside(); err != nil {
		return nil, err
	}
	live, err := r.live(ctx)
	if err != nil {
		return nil, err
	}
	g := &collection{e, r, live, leaks, &Collected{Skipped: map[string]string{}, Postponed: map[string]string{}}}
	if !r.DryRun {
		TryCleanBoot(ctx, e)
		err = errors.Join(g.tearDownAbandoned(ctx), g.tearDownDead(ctx), isolate.Apply(ctx, e), g.gcNetworks(ctx))
	}
	return g.Collected, errors.Join(err, g.collectLeaks(ctx))
}

// tearDownDead tears down the allocations on record that are not alive, several
// at a time.
func (g *collection) tearDownDead(ctx context.Context) error {
	ids, err := g.env.Store.IDs()
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return g.live(id) != "" })
	var group errgroup.Group
	group.SetLimit(maxTeardowns)
	torn := make([]bool, len(ids))
	next := make([]time.Time, len(ids))
	errs := make([]error, len(ids))
	for i, id := range ids {
		group.Go(func() error {
			torn[i], next[i], errs[i] = collect(ctx, g.env, id, g.request.inScope)
			return nil
		})
	}
	_ = group.Wait() // errors are in errs: all are wanted
	for i, id := range ids {
		switch {
		case errs[i] != nil:
			errs[i] = fmt.Errorf("allocation %s: %w", id, errs[i])
		case torn[i]:
			g.TornDown = append(g.TornDown, id)
		case !next[i].IsZero():
			g.Postponed[id] = postponed(next[i])
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
func beginUnlocked(ctx context.Context, e *operation.Env, id string) (*operation.Operation, error) {
	waiting, stop := context.WithTimeoutCause(ctx, lockPatience, state.ErrLocked)
	defer stop()
	o, err := e.Begin(waiting, id)
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
func collect(ctx context.Context, e *operation.Env, id string, scope func(network string) bool) (torn bool, next time.Time, err error) {
	o, err := beginUnlocked(ctx, e, id)
	if o == nil || err != nil {
		return false, next, err
	}
	defer o.End()
	if !o.HasRecord() { // killed after the directory was made or before it was removed
		return false, next, o.Lock.Clear()
	}
	inScope := slices.ContainsFunc(o.Record.Attachments, func(a state.Attachment) bool { return scope(a.Network) })
	if !inScope && len(o.Record.Attachments) > 0 {
		return false, next, nil
	}
	if now := time.Now(); !due(o.Record, now) {
		return false, nextAttempt(o.Record, now), nil
	}
	o.Reason = config.ReasonGC
	torn, err = recoverOrphan(ctx, o)
	return torn, next, err
}

// recoverOrphan is recoverInterrupted, and a teardown when the owner is gone. That is asked under the allocation's lock:
// nothing else makes the same allocation meanwhile.
func recoverOrphan(ctx context.Context, o *operation.Operation) (torn bool, err error) {
	if torn, err := recoverInterrupted(ctx, o); torn || err != nil || o.IsUnknown() {
		return torn, err
	}
	owner := o.Record.Allocation.Owner
	if o.Config.OwnerGone == nil || owner == "" {
		return false, nil
	}
	if gone, err := o.Config.OwnerGone(ctx, owner); !gone || err != nil {
		return false, err
	}
	return true, All(ctx, o)
}

// tearDownAbandoned tears down the abandoned allocations, also those that have a namespace
// and no record, and removes their namespaces.
func (g *collection) tearDownAbandoned(ctx context.Context) error {
	if g.request.Abandoned == nil {
		return nil
	}
	ids, err := g.request.Abandoned()
	errs := []error{err}
	for _, id := range ids {
		torn, next, err := removeAbandoned(ctx, g.env, id)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("allocation %s, which has ended: %w", id, err))
		case torn:
			g.TornDown = append(g.TornDown, id)
		case !next.IsZero():
			g.Postponed[id] = postponed(next)
		}
	}
	return errors.Join(errs...)
}

// removeAbandoned detaches an allocation in its namespace, and then removes the namespace. One
// that is locked is left to the next GC, and so is a teardown that failed; next is when
// it is due again.
func removeAbandoned(ctx context.Context, e *operation.Env, id string) (torn bool, next time.Time, err error) {
	o, err := beginUnlocked(ctx, e, id)
	if o == nil || err != nil {
		return false, next, err
	}
	defer o.End()
	if now := time.Now(); !due(o.Record, now) {
		return false, nextAttempt(o.Record, now), nil
	}
	o.Reason = config.ReasonGC
	if err := All(ctx, o); err != nil {
		return false, next, err
	}
	path := filepath.Join(netns.DefaultDir, id)
	o.Log.Info("removing the namespace of an allocation that has ended", "allocation", id, "netns", path)
	if err := e.Config.Namespaces.Remove(path); err != nil {
		return false, next, err
	}
	return true, next, nil
}

// Collector is Engine.Collector; it removes leaks for a reason.
func Collector(e *operation.Env, reason config.Reason) *cleanup.Collector {
	return &cleanup.Collector{
		Store: e.Store, ConfDirs: e.Config.ConfDirs, CacheDir: e.Config.CacheDir, Logger: e.Config.Logger,
		Observe: func(r cleanup.Removed) {
			e.Config.Report(config.Observation{
				Op: config.OpCleanup, Reason: reason, Allocation: r.Allocation, Networks: r.Networks,
				Attempts: 1, Objects: r.Objects, Took: r.Took, Err: r.Err,
			})
		},
	}
}

// collectLeaks asks again which allocations live: the teardowns before it may have
// taken minutes.
func (g *collection) collectLeaks(ctx context.Context) error {
	if g.request.Leaks == IgnoreLeaks {
		return nil
	}
	live, err := g.request.live(ctx)
	if err != nil {
		return err
	}
	g.Leaks, err = g.leaks(ctx, g.request, live)
	return err
}

// ScanLeaks examines the host, and removes what the request says.
func ScanLeaks(ctx context.Context, e *operation.Env, r GCRequest, live cleanup.Live) (*cleanup.Report, error) {
	collector := Collector(e, config.ReasonGC)
	collector.Grace, collector.RefreshLive, collector.Progress = r.Grace, r.Live, r.Progress
	if r.Orchestrated != nil {
		collector.Orchestrated = func(o cleanup.Owner) bool { return r.Orchestrated(o.Network, o.Allocation) }
	}
	scope := cleanup.Scope{Network: r.Network}
	if r.DryRun || r.Leaks == ReportLeaks {
		report, err := collector.Examine(ctx, scope, live)
		return report, err
	}
	return collector.Collect(ctx, scope, live)
}
