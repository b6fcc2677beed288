// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hook"
)

// Live reads the live allocations of an orchestrator on this host.
type Live interface {
	// Live returns the IDs of the allocations that have not ended. An error means
	// that they are unknown, not that there are none.
	Live(ctx context.Context) (map[string]bool, error)
	// Prune drops stored data of allocations that are not live.
	Prune(live map[string]bool) error
}

// Sweeper finds leaks: objects on the host that belong to no allocation.
type Sweeper interface {
	// Sweep counts leaks by kind, and removes them if remove is set. Objects of live
	// or recorded allocations are not leaks. It calls live at the start, and again
	// before each removal: after an error nothing is removed.
	Sweep(ctx context.Context, live func(context.Context) (map[string]bool, error), remove bool) (found, removed map[string]int, err error)
}

// Collector tears down the recorded allocations that are dead.
type Collector interface {
	GC(ctx context.Context, live func(id string) bool, networks ...string) (*hook.Collected, error)
}

// ReconcilerConfig configures a Reconciler.
type ReconcilerConfig struct {
	// Collector is the engine. Required.
	Collector Collector
	// Live reports live allocations in addition to those with a namespace. Nil: an
	// allocation is live if its namespace exists.
	Live Live
	// Outside returns an error if the process does not see the namespaces of the host;
	// then rounds do nothing. Nil: it sees them.
	Outside func() error
	// Sweeper finds leaks. Nil: rounds handle recorded allocations only.
	Sweeper Sweeper
	// Metrics counts. Required.
	Metrics *Metrics
	// Logger gets a line for each finding. Default: none.
	Logger hclog.Logger
}

// Reconciler garbage-collects dead allocations: at its start, at an interval, and
// after Kick.
type Reconciler struct {
	config   ReconcilerConfig
	interval atomic.Int64
	report   atomic.Bool
	first    atomic.Bool // the first round is complete
	kicks    chan struct{}
	// round serializes rounds; two in parallel would count a leak twice.
	round sync.Mutex
}

// NewReconciler returns a reconciler that runs a round each minute and removes leaks.
func NewReconciler(c ReconcilerConfig) *Reconciler {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	r := &Reconciler{config: c, kicks: make(chan struct{}, 1)}
	r.Configure(0, false)
	return r
}

// Configure sets the interval, 0 for a minute, and whether leaks are only counted. It
// may be called at any time.
func (r *Reconciler) Configure(interval time.Duration, report bool) {
	if interval <= 0 {
		interval = time.Minute
	}
	r.interval.Store(int64(interval))
	r.report.Store(report)
}

// Kick schedules a round. It does not wait.
func (r *Reconciler) Kick() {
	select {
	case r.kicks <- struct{}{}:
	default: // a round is scheduled already
	}
}

// FirstRoundDone tells whether the first round is complete, even with an error:
// then the work that an earlier agent left incomplete is completed, undone or
// reported.
func (r *Reconciler) FirstRoundDone() bool { return r.first.Load() }

// Run reconciles until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	for {
		if _, err := r.Collect(ctx); err != nil && ctx.Err() == nil {
			r.config.Logger.Warn("round of the reconciler", "error", err)
		}
		r.first.Store(true)
		select {
		case <-ctx.Done():
			return
		case <-r.kicks:
		case <-time.After(time.Duration(r.interval.Load())):
		}
	}
}

// Collect runs one round. If the live allocations are unknown, nothing is removed and
// the error is "try again later".
func (r *Reconciler) Collect(ctx context.Context) (*hook.Collected, error) {
	r.round.Lock()
	defer r.round.Unlock()
	if err := r.outside(); err != nil {
		r.config.Metrics.round("unknown")
		return nil, err
	}
	live, err := r.live(ctx)
	if err != nil {
		r.config.Metrics.round("unknown")
		return nil, err
	}
	collected, err := r.config.Collector.GC(ctx, func(id string) bool { return live[id] })
	if collected != nil && len(collected.TornDown) > 0 {
		r.config.Logger.Info("tore down dead allocations", "allocations", collected.TornDown)
		r.config.Metrics.leaks("allocation", len(collected.TornDown), len(collected.TornDown))
	}
	err = errors.Join(err, r.sweep(ctx))
	if r.config.Live != nil {
		err = errors.Join(err, r.config.Live.Prune(live))
	}
	r.config.Metrics.round(outcome(err))
	return collected, err
}

func (r *Reconciler) outside() error {
	if r.config.Outside == nil {
		return nil
	}
	return r.config.Outside()
}

// live returns the allocations that are live even without a namespace.
func (r *Reconciler) live(ctx context.Context) (map[string]bool, error) {
	if r.config.Live == nil {
		return nil, nil
	}
	known, err := r.config.Live.Live(ctx)
	if err != nil {
		return nil, &api.Error{
			Code: api.CodeTryAgainLater, Msg: "the live allocations are unknown, so nothing is removed",
			Details: err.Error(), Status: http.StatusServiceUnavailable,
		}
	}
	return known, nil
}

func (r *Reconciler) sweep(ctx context.Context) error {
	if r.config.Sweeper == nil {
		return nil
	}
	remove := !r.report.Load()
	found, removed, err := r.config.Sweeper.Sweep(ctx, r.live, remove)
	for kind, n := range found {
		r.config.Logger.Warn("leak on the host", "kind", kind, "found", n, "removed", removed[kind])
		r.config.Metrics.leaks(kind, n, removed[kind])
	}
	if err != nil {
		return fmt.Errorf("leaks: %w", err)
	}
	return nil
}
