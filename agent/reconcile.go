// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/semaphore"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/wake"
)

// Live reads the live allocations of an orchestrator on this host.
type Live interface {
	// Live returns the IDs of the allocations that have not ended. An error means
	// that they are unknown, not that there are none.
	Live(ctx context.Context) (map[string]bool, error)
	// Ended returns the IDs of the allocations that the last answer of Live knows and
	// that have ended.
	Ended() []string
	// Prune drops stored data of allocations that are not live.
	Prune(live map[string]bool) error
}

// Collector tears down the recorded allocations that are dead, and removes leaks.
type Collector interface {
	GC(ctx context.Context, r hook.GCRequest) (*hook.Collected, error)
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
	// Orchestrated tells what the orchestrator of Live attached itself; see
	// cleanup.Collector. Default: nothing.
	Orchestrated func(network, allocation string) bool
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
	kicks    wake.Signal
	// round serializes rounds; two in parallel would count a leak twice. It guards
	// abandoned.
	round     *semaphore.Weighted
	abandoned abandoned
	last      atomic.Pointer[api.Leaks]
}

// NewReconciler returns a reconciler that runs a round each minute and removes leaks.
func NewReconciler(c ReconcilerConfig) *Reconciler {
	c.Logger = cmp.Or(c.Logger, hclog.NewNullLogger())
	r := &Reconciler{config: c, kicks: wake.NewSignal(), round: semaphore.NewWeighted(1), abandoned: abandoned{unused: netns.Unused}}
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
func (r *Reconciler) Kick() { r.kicks.Send() }

// FirstRoundDone tells whether the first round is complete, even with an error:
// then the work that an earlier agent left incomplete is completed, undone or
// reported.
func (r *Reconciler) FirstRoundDone() bool { return r.first.Load() }

// Run reconciles until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	for goesOn := true; goesOn; goesOn = r.kicks.Await(ctx, time.Duration(r.interval.Load())) {
		if _, err := r.Collect(ctx); err != nil && ctx.Err() == nil {
			r.config.Logger.Warn("round of the reconciler", "error", err)
		}
		r.first.Store(true)
	}
}

// grace is longer than an ADD of another runtime takes, which a round may overlap.
const grace = 2 * time.Minute

// Collect runs one round, after the one that may be running. If the live allocations are unknown, nothing is removed and
// the error is "try again later".
func (r *Reconciler) Collect(ctx context.Context) (*hook.Collected, error) {
	if err := r.round.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("another round of the reconciler has not ended: %w", context.Cause(ctx))
	}
	defer r.round.Release(1)
	if err := r.outside(); err != nil {
		r.config.Metrics.round("unknown")
		return nil, err
	}
	var live map[string]bool
	request := hook.GCRequest{Grace: grace, Orchestrated: r.config.Orchestrated}
	if r.report.Load() {
		request.Leaks = hook.ReportLeaks
	}
	if r.config.Live != nil {
		request.Live = func(ctx context.Context) (alive cleanup.Live, err error) {
			alive, live, err = r.live(ctx)
			return alive, err
		}
		request.Abandoned = r.findAbandoned
	}
	collected, err := r.config.Collector.GC(ctx, request)
	if collected == nil {
		r.config.Metrics.round("unknown")
		return nil, err
	}
	r.count(collected, request.Leaks == hook.RemoveLeaks)
	if r.config.Live != nil && live != nil {
		err = errors.Join(err, r.config.Live.Prune(live))
	}
	r.config.Metrics.round(outcome(err))
	return collected, err
}

// findAbandoned returns nothing where leaks are not to be removed.
func (r *Reconciler) findAbandoned() ([]string, error) {
	if r.report.Load() {
		return nil, nil
	}
	return r.abandoned.find(r.config.Live.Ended(), time.Duration(r.interval.Load()), time.Now())
}

func (r *Reconciler) outside() error {
	if r.config.Outside == nil {
		return nil
	}
	return r.config.Outside()
}

// live returns the allocations that are live even without a namespace.
func (r *Reconciler) live(ctx context.Context) (cleanup.Live, map[string]bool, error) {
	known, err := r.config.Live.Live(ctx)
	if err != nil {
		return nil, nil, &api.Error{
			Code: api.CodeTryAgainLater, Msg: "the live allocations are unknown, so nothing is removed",
			Details: err.Error(), Status: http.StatusServiceUnavailable,
		}
	}
	return func(id string) string {
		if known[id] {
			return "its orchestrator says so"
		}
		return ""
	}, known, nil
}

// Leaks returns what the last round left on the host.
func (r *Reconciler) Leaks() *api.Leaks {
	if last := r.last.Load(); last != nil {
		return last
	}
	return &api.Leaks{Leaks: []api.Leak{}, Problems: []string{}}
}

// count logs, counts and keeps what a round found and removed.
func (r *Reconciler) count(c *hook.Collected, remove bool) {
	if len(c.TornDown) > 0 {
		r.config.Logger.Info("tore down dead allocations", "allocations", c.TornDown)
		r.config.Metrics.leaks("allocation", len(c.TornDown), len(c.TornDown))
	}
	if c.Leaks == nil {
		return
	}
	r.last.Store(wireLeaks(c.Leaks, remove, time.Now()))
	var removed map[string]int
	if remove {
		removed = byKind(c.Leaks.Gone())
	}
	for kind, n := range byKind(c.Leaks.Leaked()) {
		r.config.Logger.Warn("leak on the host", "kind", kind, "found", n, "removed", removed[kind])
		r.config.Metrics.leaks(kind, n, removed[kind])
	}
}

func byKind(decisions []cleanup.Decision) map[string]int {
	counts := map[string]int{}
	for _, d := range decisions {
		counts[string(d.Kind)]++
	}
	return counts
}
