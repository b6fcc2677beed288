// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/cleanup"
)

// sweeper finds leaks for the agent.
type sweeper struct{ collector cleanup.Collector }

var _ agent.Sweeper = (*sweeper)(nil)

// Sweep counts leaks by kind, and removes them if it shall.
func (s *sweeper) Sweep(ctx context.Context, live func(id string) bool, remove bool) (found, removed map[string]int, err error) {
	lives := func(id string) string {
		if live(id) {
			return "its orchestrator"
		}
		return ""
	}
	var report *cleanup.Report
	if remove {
		report, err = s.collector.Collect(ctx, cleanup.Scope{}, lives)
	} else {
		report, _, err = s.collector.Examine(ctx, cleanup.Scope{}, lives)
	}
	if report == nil {
		return nil, nil, err
	}
	found, removed = count(report.Leaked()), map[string]int{}
	if remove {
		removed = count(removedOf(report.Leaked(), report.Failures))
	}
	return found, removed, err
}

func count(verdicts []cleanup.Verdict) map[string]int {
	counts := map[string]int{}
	for _, v := range verdicts {
		counts[string(v.Kind)]++
	}
	return counts
}
