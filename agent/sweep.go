// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/state"
)

// HostSweeper is a Sweeper for objects of CNI plugins on the host.
type HostSweeper struct {
	// Store has the records. Required.
	Store *state.Store
	// ConfDirs are the CNI configuration directories of this host. Required.
	ConfDirs []string
	// Orchestrated tells whether the orchestrator attached an allocation itself. It has
	// to be the orchestrator that reports live allocations; see cleanup.Collector.
	// Default: none.
	Orchestrated func(network, allocation string) bool
	// Logger gets a line for each step that matters. Default: none.
	Logger hclog.Logger
}

var _ Sweeper = (*HostSweeper)(nil)

// grace is longer than an ADD of another runtime takes, which a round may overlap.
const grace = 2 * time.Minute

// Sweep finds leaks, and removes them if remove is set. An object that cannot be
// examined is not a leak.
func (s *HostSweeper) Sweep(ctx context.Context, live func(context.Context) (map[string]bool, error), remove bool) (found, removed map[string]int, err error) {
	ask := func(ctx context.Context) (cleanup.Live, error) {
		known, err := live(ctx)
		return func(id string) string {
			if known[id] {
				return "its orchestrator says so"
			}
			return ""
		}, err
	}
	lives, err := ask(ctx)
	if err != nil {
		return nil, nil, err
	}
	c := cleanup.Collector{RefreshLive: ask, Store: s.Store, ConfDirs: s.ConfDirs, Grace: grace, Logger: s.Logger}
	if s.Orchestrated != nil {
		c.Orchestrated = func(o cleanup.Owner) bool { return s.Orchestrated(o.Network, o.Allocation) }
	}
	if !remove {
		report, _, err := c.Examine(ctx, cleanup.Scope{}, lives)
		if err != nil {
			return nil, nil, err
		}
		return count(report.Leaked()), nil, nil
	}
	report, err := c.Collect(ctx, cleanup.Scope{}, lives)
	if report == nil {
		return nil, nil, err
	}
	return count(report.Leaked()), count(report.Gone()), err
}

func count(decisions []cleanup.Decision) map[string]int {
	byKind := map[string]int{}
	for _, v := range decisions {
		byKind[string(v.Kind)]++
	}
	return byKind
}
