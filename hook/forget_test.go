// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/state"
)

// TestForgetsWhatHasNoAttachment: a process that was killed between removing the
// last attachment of an allocation that Extend recorded and forgetting the
// allocation leaves a record without attachments, which the next call drops.
func TestForgetsWhatHasNoAttachment(t *testing.T) {
	boot, err := state.BootID()
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(e *Engine) error{
		"Release": func(e *Engine) error { return e.Release(context.Background(), "a", "task") },
		"GC":      func(e *Engine) error { _, err := e.GC(context.Background(), GCRequest{}); return err },
	} {
		e := fakeEngine(t, nil)
		ns, err := e.env.Config.Namespaces.Open(ownNetns)
		if err != nil {
			t.Fatal(err)
		}
		lock, err := e.env.Store.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		err = lock.Begin(state.Allocation{ID: "a", Mode: state.ModeExtend, Netns: ownNetns, NetnsID: ns.ID(), BootID: boot}, nil)
		lock.Unlock()
		if err := errors.Join(err, call(e)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := e.Status(t.Context(), "a"); !errors.Is(err, state.ErrNotFound) {
			t.Errorf("after %s: %v, want it forgotten", name, err)
		}
	}
}

// TestKeepsSetupWithoutAttachments: only a record that Extend made is dropped with its
// last attachment. That of Setup is Setup's or Teardown's to complete.
func TestKeepsSetupWithoutAttachments(t *testing.T) {
	e := fakeEngine(t, nil)
	lock, err := e.env.Store.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	err = lock.Begin(state.Allocation{ID: "a", Mode: state.ModeSetup, Netns: "/proc/self/ns/net"}, nil)
	lock.Unlock()
	if err := errors.Join(err, e.Release(t.Context(), "a", "task")); err != nil {
		t.Fatal(err)
	}
	if status, err := e.Status(t.Context(), "a"); err != nil {
		t.Errorf("after Release: %+v, %v, want it on record", status, err)
	}
}

// forgettable returns an engine with the allocation a, which is dead: its plugin fails, and so does forced cleanup, which calls
// cleaning first.
func forgettable(t *testing.T, cleaning func()) *Engine {
	t.Helper()
	e := fakeEngine(t, func(c *Config) {
		c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error {
			cleaning()
			return slices.Repeat([]error{errors.New("busy")}, len(left))
		})
	})
	failing := fakeList(t, "n", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"DEL": {Code: 100, Msg: "broken"}}})
	record(t, e, "a", state.Attachment{Network: "n", Interface: "eth0", Batch: onrecord.SetupBatch, Phase: state.Attached, ConfList: failing})
	return e
}

// TestForget drops the record of a dead allocation also if its plugin and forced cleanup fail.
func TestForget(t *testing.T) {
	e := forgettable(t, func() {})
	if err := e.TearDownDead(t.Context(), "a"); err == nil || errors.Is(err, ErrAlive) {
		t.Fatalf("TearDownDead: %v, want what cannot be removed", err)
	}
	for range 2 {
		if err := e.Forget(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.Status(t.Context(), "a"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("on record: %v", err)
	}
}

// TestInterruptedForget keeps the record: what was not attempted may be removed by a further call.
func TestInterruptedForget(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	e := forgettable(t, interrupt)
	if err := e.Forget(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Forget: %v, want context.Canceled", err)
	}
	if _, err := e.Status(t.Context(), "a"); err != nil {
		t.Errorf("on record: %v", err)
	}
}
