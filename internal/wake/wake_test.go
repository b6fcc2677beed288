// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package wake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwait: a pause ends with its time, its context, or a signal, which counts once however often it was sent.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := NewSignal()
		took := func(goesOn bool, await func() bool) time.Duration {
			began := time.Now()
			if got := await(); got != goesOn {
				t.Errorf("ctx goes on: %v, want %v", got, goesOn)
			}
			return time.Since(began)
		}
		minute := func() bool { return s.Await(ctx, time.Minute) }
		if got := took(true, func() bool { return After(ctx, time.Second) }); got != time.Second {
			t.Errorf("a pause of a second took %s", got)
		}
		s.Send()
		s.Send()
		if got := took(true, minute); got != 0 {
			t.Errorf("a pause after a signal took %s", got)
		}
		if got := took(true, minute); got != time.Minute {
			t.Errorf("the pause after the one that the signal has ended took %s", got)
		}
		time.AfterFunc(time.Second, s.Send)
		if got := took(true, minute); got != time.Second {
			t.Errorf("a pause with a signal after a second took %s", got)
		}
		time.AfterFunc(time.Second, cancel)
		if got := took(false, minute); got != time.Second {
			t.Errorf("a pause whose context ends after a second took %s", got)
		}
	})
}
