// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"context"
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
	ResetShare  = 1. / 2
	AttachShare = 1. / 2
	OrphanShare = 1. / 3
	DelShare    = 2. / 3
)

// leastUndo is the time that undoing gets even when the call has none left: what is not undone
// now stays on the host.
const leastUndo = 5 * time.Second

// Phase returns the context of a part of a call: it ends when the share of the
// time that ctx has left is over.
func Phase(ctx context.Context, share float64, name string) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	limit := time.Duration(share * float64(time.Until(deadline)))
	cause := fmt.Errorf("%s was not done within %s: %w", name, Round(limit), context.DeadlineExceeded)
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

// Round rounds a duration for messages.
func Round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
