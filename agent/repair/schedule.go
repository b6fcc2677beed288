// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"time"
)

const (
	// interval is the time between two rounds without an event: for what the kernel does not
	// tell of, such as parameters. It is longer if it is less than idleShare durations of a round.
	interval  = 30 * time.Second
	idleShare = 50
	// settle is the time without an event after which a round begins, and longestSettle that
	// from the first event: what removes one thing may be removing others.
	settle        = 50 * time.Millisecond
	longestSettle = 500 * time.Millisecond
	// restShare is the rest that a round owes, in its durations: on a host where much is attached
	// and detached there are always events. Rest is taken from what is owed beyond a credit, so that
	// damage soon after other damage is repaired at once.
	restShare  = 4
	restCredit = 20 * time.Second
)

// rests is what rounds owe. Its zero value is for a first round.
type rests struct {
	owed time.Duration
	// since is when the last round ended.
	since time.Time
}

// after returns the rest after a round that took some time and has ended now.
func (r *rests) after(now time.Time, took time.Duration) time.Duration {
	rested := now.Sub(r.since) - took
	r.owed = max(r.owed-rested, 0) + restShare*took
	r.since = now
	return max(r.owed-restCredit, 0)
}

// awaitRound returns when the next round shall begin after one that took some time: soon after an
// event, or at a time, or after the interval, but not before a rest. The time may be zero: there is
// none.
func awaitRound(ctx context.Context, events <-chan struct{}, took, rest time.Duration, at time.Time) {
	wait := max(interval, idleShare*took)
	if !at.IsZero() {
		wait = min(wait, time.Until(at))
	}
	rested, over := time.After(rest), time.After(max(wait, rest))
	select {
	case <-ctx.Done():
		return
	case <-over:
		return
	case <-events:
	}
	awaitQuiet(ctx, events)
	select {
	case <-ctx.Done():
	case <-rested:
	}
}

// awaitQuiet returns when no event has come for a while, or when they do not end.
func awaitQuiet(ctx context.Context, events <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, longestSettle)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(settle):
			return
		case <-events:
		}
	}
}
