// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package wake ends the pauses of what goes on until a context ends.
package wake

import (
	"context"
	"time"
)

// After returns once d is over or ctx ends, and tells whether ctx goes on.
func After(ctx context.Context, d time.Duration) bool {
	return Signal(nil).Await(ctx, d)
}

// Signal ends a pause early. It is heard once, also when it was sent several times before.
type Signal chan struct{}

// NewSignal returns a signal that was not sent yet.
func NewSignal() Signal { return make(Signal, 1) }

// Send sends the signal. It does not wait.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default: // what was sent before is still to be heard
	}
}

// Await is After that also returns when the signal is sent, or was before.
func (s Signal) Await(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-s:
	case <-time.After(d):
	}
	return ctx.Err() == nil
}
