// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/state"
)

var errStuck = errors.New("the device is busy")

// teardownThatFails leaves one attachment pending.
func teardownThatFails(w *world) error {
	w.failing = map[string]error{"DEL macvlan net1": errStuck, "clean net1": errStuck}
	err := w.Teardown(w.ctx, "own")
	w.failing = nil
	if errors.Is(err, errStuck) {
		return nil
	}
	return errors.Join(errors.New("the teardown did not fail as it has to"), err)
}

// TestPendingAttachment: what a teardown could not remove is on record with its cause,
// alone, until a retry removes it.
func TestPendingAttachment(t *testing.T) {
	i := install(t)
	for name, test := range map[string]struct {
		retry func(w *world) error
		// aged is whether the last attempt was an hour ago.
		aged, removed bool
	}{
		"RetryPending":             {func(w *world) error { return w.RetryPending(w.ctx) }, false, true},
		"GC":                       {collect, false, true},
		"Teardown":                 {teardown("own"), false, true},
		"Setup":                    {setup(ownRequest), false, false},
		"RetryPending, not due":    {inTurn(failedRetry, func(w *world) error { return w.RetryPending(w.ctx) }), false, false},
		"GC, not due":              {inTurn(failedRetry, collect), false, false},
		"RetryPending, due again":  {inTurn(failedRetry, age, func(w *world) error { return w.RetryPending(w.ctx) }), true, true},
		"GC, due again":            {inTurn(failedRetry, age, collect), true, true},
		"Teardown does not wait":   {inTurn(failedRetry, teardown("own")), false, true},
		"Setup again, at any time": {inTurn(failedRetry, setup(ownRequest)), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := killable{find: inTurn(setup(ownRequest), teardownThatFails)}.world(t, i)
			a, err := w.Status(t.Context(), "own")
			if err != nil || len(a.Attachments) != 1 || a.Attachments[0].Phase != state.Pending || !strings.Contains(a.Attachments[0].Error, errStuck.Error()) {
				t.Fatalf("recorded is %+v, %v", a, err)
			}
			if !w.RetryDue() {
				t.Error("the first retry is not due")
			}
			if err := test.retry(w); err != nil {
				t.Error(err)
			}
			if ids := recorded(t, w.Engine); test.removed != (len(ids) == 0) {
				t.Errorf("on record are %v, want them removed: %t", ids, test.removed)
			}
			if err := w.Teardown(t.Context(), "own"); err != nil {
				t.Error(err)
			}
			if w.RetryDue() {
				t.Error("something is due that is removed")
			}
			w.wantNothing()
		})
	}
}

// failedRetry is one that removes nothing.
func failedRetry(w *world) error {
	w.failing = map[string]error{"DEL macvlan net1": errStuck, "clean net1": errStuck}
	err := w.RetryPending(w.ctx)
	w.failing = nil
	if w.RetryDue() {
		return errors.New("the next retry is due at once")
	}
	return err
}

// age has the last attempt be an hour ago.
func age(w *world) error {
	l, err := w.env.Store.Lock(w.ctx, "own")
	if err != nil {
		return err
	}
	defer l.Unlock()
	r, err := l.Load()
	if err != nil {
		return err
	}
	a := r.Attachments[0]
	a.Updated = time.Now().Add(-time.Hour)
	return l.Write(a)
}
