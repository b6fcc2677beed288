// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/hook/internal/operation"
)

func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := func(ctx context.Context) time.Duration {
			deadline, ok := ctx.Deadline()
			if !ok {
				return 0
			}
			return time.Until(deadline)
		}
		cleanup := func(ctx context.Context) time.Duration {
			ctx, stop := cleaning(ctx, time.Minute)
			defer stop()
			return left(ctx)
		}
		call, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		attaching, stop := operation.Phase(call, operation.AttachShare, "attaching")
		defer stop()
		undoing, stop := operation.Undoing(call)
		defer stop()
		if got := left(attaching); got != 30*time.Second {
			t.Errorf("attaching has %s", got)
		}
		<-attaching.Done()
		if err := context.Cause(attaching); !errors.Is(err, context.DeadlineExceeded) || err.Error() != "attaching was not done within 30s: context deadline exceeded" {
			t.Errorf("the cause is %v", err)
		}
		dels, stop := operation.Phase(undoing, operation.DelShare, "DEL")
		defer stop()
		if got := left(dels); got != 20*time.Second {
			t.Errorf("DEL has %s", got)
		}
		<-dels.Done()
		if got := cleanup(undoing); got != 10*time.Second {
			t.Errorf("cleanup has %s", got)
		}
		<-call.Done()
		late, stop := operation.Undoing(call)
		defer stop()
		if got := left(late); got != 5*time.Second {
			t.Errorf("undoing a call that is over has %s", got)
		}
		if got := cleanup(call); got != leastCleanup {
			t.Errorf("cleanup after the deadline has %s", got)
		}
		if got := cleanup(t.Context()); got != time.Minute {
			t.Errorf("cleanup without a deadline has %s", got)
		}
	})
}

// TestCancelledCleanup: a caller that gives up ends forced cleanup, too.
func TestCancelledCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, cancel := context.WithCancel(t.Context())
		ctx, stop := cleaning(call, time.Minute)
		defer stop()
		cancel()
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Error(ctx.Err())
		}
	})
}
