// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/allocnet/allocnet/hook"
)

// reattachments are calls beside the rounds that attach again what only comes back so: plugins may
// take minutes. The zero value has none.
type reattachments struct {
	group sync.WaitGroup

	mu      sync.Mutex // guards all below
	running map[string]bool
	ended   []reattachment
}

type reattachment struct {
	// first is when the kernel told of the damage; zero if it did not.
	first  time.Time
	drifts []hook.Drift
}

// reattach begins to attach again what an allocation lacks, unless that has begun. When too many are, a
// later round does it: one follows the end of each.
func (r *Repairer) reattach(ctx context.Context, id string, first time.Time) {
	calls := &r.reattachments
	calls.mu.Lock()
	defer calls.mu.Unlock()
	if calls.running[id] || len(calls.running) >= hook.ParallelReattachments {
		return
	}
	if calls.running == nil {
		calls.running = map[string]bool{}
	}
	calls.running[id] = true
	calls.group.Go(func() {
		drifts, err := r.config.Engine.RepairAttachments(ctx, hook.RepairRequest{IDs: []string{id}, Mode: hook.RepairReattach, LastChecks: true, Grace: r.config.DrainTimeout})
		if err != nil && ctx.Err() == nil {
			drifts = append(drifts, hook.Drift{Allocation: id, Err: err})
		}
		calls.mu.Lock()
		delete(calls.running, id)
		calls.ended = append(calls.ended, reattachment{first, drifts})
		calls.mu.Unlock()
		r.kicks.Send()
	})
}

// end notes what the calls have found that have ended, and returns the allocations that others work on.
func (r *Repairer) end() (running []string) {
	calls := &r.reattachments
	calls.mu.Lock()
	ended := calls.ended
	calls.ended = nil
	for id := range calls.running {
		running = append(running, id)
	}
	calls.mu.Unlock()
	for _, call := range ended {
		drifts := slices.DeleteFunc(call.drifts, func(d hook.Drift) bool { return d.Skipped != "" })
		for _, d := range drifts {
			key, lacks := attachment{d.Allocation, d.Interface}, r.damage(d)
			r.note(d, call.first)
			if delete(r.known, key); !d.Repaired {
				r.known[key] = lacks
			}
		}
		r.count(drifts)
	}
	return running
}
