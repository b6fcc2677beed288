// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/exhaustive"
	"github.com/allocnet/allocnet/state"
)

var errGaveUp = errors.New("the caller gave up")

// TestCancelledAtEveryCall: a caller may give up before or during any call of a
// plugin. What Setup or Extend did is then undone; what else was begun is completed by
// the next call.
func TestCancelledAtEveryCall(t *testing.T) {
	i := install(t)
	for name, k := range killables {
		if strings.Contains(name, "boot") { // where another call goes on in the background
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := k.world(t, i)
			found, first := w.keep(t), w.calls
			if err := k.call(w); err != nil {
				t.Fatal(err)
			}
			for last, n := w.calls, first+1; n <= last; n++ {
				for _, during := range []bool{false, true} {
					exhaustive.Run(t, fmt.Sprintf("call %d, during %t", n-first, during), func(t *testing.T) {
						found(t)
						k.cancel(t, w, n, during)
					})
				}
			}
		})
	}
}

// cancel cancels the operation at the n-th call.
func (k killable) cancel(t *testing.T, w *world, n int, during bool) {
	t.Helper()
	before := summary(w)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	w.ctx = ctx
	w.onCall = func(number int, done bool) {
		if number == n && done == during {
			cancel(errGaveUp)
		}
	}
	err := k.call(w)
	w.ctx, w.onCall = t.Context(), nil
	switch {
	case err == nil: // it was the last call of those that matter
	case !errors.Is(err, errGaveUp):
		t.Errorf("got %v, want the cause", err)
	case k.undone:
		if after := summary(w); after != before {
			t.Errorf("before: %s\nafter: %s", before, after)
		}
		w.wantRecorded()
	}
	if err := k.repeat(w); err != nil {
		t.Errorf("again: %v", err)
	}
	w.wantRecorded()
	for _, id := range recorded(t, w.Engine) {
		if err := w.Teardown(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	w.wantNothing()
}

// summary tells what is attached.
func summary(w *world) string {
	var b strings.Builder
	for r, err := range w.env.Store.List(w.t.Context()) {
		fmt.Fprintln(&b, r.Allocation.ID, err)
		for _, a := range r.Attachments {
			fmt.Fprintln(&b, a.Network, a.Interface, a.Phase)
		}
	}
	return b.String()
}

// TestCancelledBefore: what is cancelled before it begins runs no plugin.
func TestCancelledBefore(t *testing.T) {
	i := install(t)
	for name, k := range killables {
		w := k.world(t, i)
		held, err := w.env.Store.Lock(t.Context(), k.id)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errdefs.As(errdefs.Timeout, errGaveUp))
		w.ctx = ctx
		calls := w.calls
		if err := k.call(w); name != "GC" && !errors.Is(err, errGaveUp) || errors.Is(err, state.ErrLocked) {
			t.Errorf("%s: %v, want the cause", name, err)
		}
		if w.calls != calls {
			t.Errorf("%s: %d calls of plugins", name, w.calls-calls)
		}
		held.Unlock()
	}
}
