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
	// restShare is the time between two rounds in durations of the first one: on a host where much
	// is attached and detached there are always events.
	restShare = 4
)

// awaitRound returns when the next round shall begin after one that took some time: soon after an
// event, or at a time, or after the interval. The time may be zero: there is none. It reports when
// the first event came; zero if there was none.
func awaitRound(ctx context.Context, events <-chan struct{}, took time.Duration, at time.Time) (first time.Time) {
	rest := restShare * took
	wait := max(interval, idleShare*took)
	if !at.IsZero() {
		wait = min(wait, time.Until(at))
	}
	rested, over := time.After(rest), time.After(max(wait, rest))
	select {
	case <-ctx.Done():
		return time.Time{}
	case <-over:
		return time.Time{}
	case <-events:
	}
	first = time.Now()
	awaitQuiet(ctx, events)
	select {
	case <-ctx.Done():
	case <-rested:
	}
	return first
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

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
