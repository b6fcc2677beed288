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

// Live knows what an orchestrator runs on this host.
type Live interface {
	// Live returns the IDs of the allocations that have not ended. An error
	// means that it is not known, not that there are none.
	Live(ctx context.Context) (map[string]bool, error)
	// Prune forgets what is kept of allocations that do not live.
	Prune(live map[string]bool) error
}

// Sweeper finds on the host what belongs to no allocation.
type Sweeper interface {
	// Sweep counts leaks by kind, and removes them if it shall. What is live,
	// or on record, is no leak. It asks for what is live when it begins, and
	// again before it removes something: an error then keeps everything.
	Sweep(ctx context.Context, live func(context.Context) (map[string]bool, error), remove bool) (found, removed map[string]int, err error)
}

// Collector takes down what ended without teardown.
type Collector interface {
	GC(ctx context.Context, live func(id string) bool, networks ...string) (*hook.Collected, error)
}

// ReconcilerConfig is a Reconciler's.
type ReconcilerConfig struct {
	// Collector is the engine. Required.
	Collector Collector
	// Live is asked besides the namespaces: what either says lives does. Nil:
	// namespaces alone decide.
	Live Live
	// Outside says why this process does not see what lives on the host; then no
	// round does anything. Nil, or a nil error: it does.
	Outside func() error
	// Sweeper finds leaks. Nil: only allocations on record are looked at.
	Sweeper Sweeper
	// Metrics counts. Required.
	Metrics *Metrics
	// Logger gets a line for what was found. Default: none.
	Logger hclog.Logger
}

// Reconciler takes down what ended without teardown: at its start, on an
// interval, and when it is told that something ended.
type Reconciler struct {
	config   ReconcilerConfig
	interval atomic.Int64
	report   atomic.Bool
	first    atomic.Bool // the first round is over
	kicks    chan struct{}
	// one round at a time; two would count the same leak twice.
	round sync.Mutex
}

// NewReconciler returns a reconciler with a round each minute that removes
// leaks.
func NewReconciler(c ReconcilerConfig) *Reconciler {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	r := &Reconciler{config: c, kicks: make(chan struct{}, 1)}
	r.Configure(0, false)
	return r
}

// Configure sets the interval, 0 for a minute, and whether leaks are only
// reported. It may be called at any time.
func (r *Reconciler) Configure(interval time.Duration, report bool) {
	if interval <= 0 {
		interval = time.Minute
	}
	r.interval.Store(int64(interval))
	r.report.Store(report)
}

// Kick has a round run soon. It does not wait.
func (r *Reconciler) Kick() {
	select {
	case r.kicks <- struct{}{}:
	default: // one is due already
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
			r.config.Logger.Warn("reconcile", "error", err)
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

// Collect runs one round. When it is not known what lives, nothing is removed
// and the error says to try again later.
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
		r.config.Logger.Info("took down what ended without teardown", "allocations", collected.TornDown)
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

// live returns what is alive whatever its namespace shows.
func (r *Reconciler) live(ctx context.Context) (map[string]bool, error) {
	if r.config.Live == nil {
		return nil, nil
	}
	known, err := r.config.Live.Live(ctx)
	if err != nil {
		return nil, &api.Error{
			Code: api.CodeTryAgainLater, Msg: "it is not known what lives here, so nothing is removed",
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
		return fmt.Errorf("look for leaks: %w", err)
	}
	return nil
}
