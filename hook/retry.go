// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"math/rand/v2"
	"time"
)

// maxAttempts is how often an attachment is tried.
const maxAttempts = 3

// delay is the pause before the next try: 1 s and up to 1 s of jitter, so that
// the allocations of a host that failed together do not try together.
func delay() time.Duration {
	return time.Second + rand.N(time.Second)
}

// sleep pauses for d and returns early, with the cause, when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
