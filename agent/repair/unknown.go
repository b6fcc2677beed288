// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/wake"
)

const (
	// checkEvery is the least time between two CHECKs of an attachment whose plugins allocnet
	// does not know: what they cost, and what they do, is unknown.
	checkEvery = 5 * time.Minute
	// calm is the time without an event after which such plugins are run. longestCalm is how long
	// any of them waits for that: a task can make events in its own namespace.
	calm        = 2 * time.Second
	longestCalm = checkEvery
)

// checkUnknown has plugins that allocnet does not know examine what they have made, until ctx
// ends. Rounds do not wait for them.
func (r *Repairer) checkUnknown(ctx context.Context) {
	complete := time.Now() // when nothing was left out last
	for wake.After(ctx, interval) {
		if r.config.Outside != nil && r.config.Outside() != nil {
			continue
		}
		waits := time.Since(complete) < longestCalm
		var leftOut atomic.Bool
		err := r.config.Engine.CheckUnknown(ctx, hook.CheckRequest{Every: checkEvery, Except: func(string) bool {
			if !waits || r.isCalm() {
				return false
			}
			leftOut.Store(true)
			return true
		}})
		if err != nil && ctx.Err() == nil {
			r.config.Logger.Warn("check attachments whose plugins are unknown", "error", err)
		}
		if !leftOut.Load() {
			complete = time.Now()
		}
	}
}

// hear notes that something was removed, and kicks a round.
func (r *Repairer) hear(one Removal) {
	r.mu.Lock()
	r.told = time.Now()
	if r.unanswered.IsZero() {
		r.unanswered = r.told
	}
	if one.By.Name != "" {
		r.removals.add(one, r.told)
	}
	r.mu.Unlock()
	r.kicks.Send()
}

// answer returns when the kernel first told of what a round, which began at a time, has looked for; zero
// if it has not. What it told since may be for the next one.
func (r *Repairer) answer(began time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.unanswered
	r.unanswered = time.Time{}
	if !r.told.Before(began) {
		r.unanswered = r.told
	}
	return first
}

func (r *Repairer) isCalm() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.told) >= calm
}
