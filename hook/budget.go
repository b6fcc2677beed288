// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A call's deadline is split here, so that a plugin that hangs in one phase
// leaves the next phases their time:
//
//   - resetting what an earlier call left: half of what is left;
//   - attaching: half of what is left then, the rest is for undoing it;
//   - waiting for plugins of a killed process: a third of what a teardown has;
//   - DEL: two thirds of what is left then;
//   - forced cleanup: the rest.
//
// A caller without a deadline waits as long as the plugins are given.
const (
	resetShare  = 1. / 2
	attachShare = 1. / 2
	orphanShare = 1. / 3
	delShare    = 2. / 3
)

// Time that a phase gets even when the call has none left: what is not undone
// now stays on the host.
const (
	leastUndo    = 5 * time.Second
	leastCleanup = 10 * time.Second
)

// phase returns the context of a part of a call: it ends when the share of the
// time that ctx has left is over.
func phase(ctx context.Context, share float64, name string) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	limit := time.Duration(share * float64(time.Until(deadline)))
	cause := fmt.Errorf("%s was not done within %s: %w", name, round(limit), context.DeadlineExceeded)
	return context.WithTimeoutCause(ctx, limit, cause)
}

// Undoing returns the context in which to undo what was done under ctx. The
// caller cannot cancel it, and it has the time that ctx has left, or a little
// when none is.
func Undoing(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, max(time.Until(deadline), leastUndo))
}

// cleaning returns the context of forced cleanup. It outlasts the deadline of
// ctx when too little of it is left, but not a cancellation.
func (c Config) cleaning(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := c.CallTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	limit = max(limit, leastCleanup)
	cause := fmt.Errorf("forced cleanup was not done within %s: %w", round(limit), context.DeadlineExceeded)
	limited, stop := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, cause)
	cancelled, cancel := context.WithCancelCause(limited)
	follow := func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel(context.Cause(ctx))
		}
	}
	follow() // AfterFunc calls it later, also when ctx has ended
	ignore := context.AfterFunc(ctx, follow)
	return cancelled, func() {
		ignore()
		cancel(nil)
		stop()
	}
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
