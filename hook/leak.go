// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"

	"github.com/allocnet/allocnet/cleanup"
)

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

// Collector returns what finds and removes leaks, with the records, networks and
// libcni's cache of the engine.
func (e *Engine) Collector() *cleanup.Collector {
	return &cleanup.Collector{
		Store: e.store, ConfDirs: e.config.ConfDirs, CacheDir: e.config.CacheDir, Logger: e.config.Logger,
		Observe: func(r cleanup.Removed) { e.reportRemoved(r, "") },
	}
}

// collectLeaks asks again which allocations live: the teardowns before it may have
// taken minutes.
func (e *Engine) collectLeaks(ctx context.Context, r GCRequest, c *Collected) error {
	if r.Leaks == IgnoreLeaks {
		return nil
	}
	live, err := r.live(ctx)
	if err != nil {
		return err
	}
	c.Leaks, err = e.leaks(ctx, r, live)
	return err
}

// scanLeaks examines the host, and removes what the request says.
func (e *Engine) scanLeaks(ctx context.Context, r GCRequest, live cleanup.Live) (*cleanup.Report, error) {
	collector := e.Collector()
	collector.Grace, collector.RefreshLive, collector.Progress = r.Grace, r.Live, r.Progress
	collector.Observe = func(r cleanup.Removed) { e.reportRemoved(r, ReasonGC) }
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
