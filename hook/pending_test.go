// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/state"
)

// TestPendingDelaysNoCall: a teardown does not try that of another
// allocation, whose plugin hangs.
func TestPendingDelaysNoCall(t *testing.T) {
	dir := t.TempDir()
	e := fakeEngine(t, func(c *Config) {
		c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error { return make([]error, len(left)) })
	})
	begun, release := filepath.Join(dir, "begun"), filepath.Join(dir, "release")
	hangs := fakeList(t, "n", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"DEL": {Mark: begun, Await: release}}})
	record(t, e, "hung", state.Attachment{Network: "n", Interface: "eth0", Batch: onrecord.SetupBatch, Phase: state.Pending, ConfList: hangs, Attempts: 1, Updated: time.Now()})
	record(t, e, "healthy", state.Attachment{Network: "m", Interface: "eth0", Batch: onrecord.SetupBatch, Phase: state.Attached, ConfList: fakeList(t, "m", fakecni.Script{})})
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if err := e.Teardown(ctx, "healthy"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(begun); err == nil {
		t.Error("the pending teardown was tried within the call")
	}
	if !e.RetryDue() {
		t.Error("the pending teardown is not due")
	}
	done := make(chan error, 1)
	go func() { done <- e.RetryPending(ctx) }()
	for {
		if _, err := os.Stat(begun); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := e.RetryPending(ctx); err != nil { // one at a time: does nothing
		t.Error(err)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := e.Status(ctx, "hung"); !errors.Is(err, state.ErrNotFound) || e.RetryDue() {
		t.Errorf("it is still pending: %v", err)
	}
}

// TestGCPausesBetweenAttempts: GC retries a teardown that failed at growing
// intervals, as RetryPending does, and says when.
func TestGCPausesBetweenAttempts(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	e := fakeEngine(t, nil)
	fails := fakeList(t, "n", fakecni.Script{Log: calls, Verbs: map[string]fakecni.Behaviour{"DEL": {Code: 999, Msg: "never"}}})
	record(t, e, "stuck", state.Attachment{Network: "n", Interface: "eth0", Batch: onrecord.SetupBatch, Phase: state.Pending, ConfList: fails, Attempts: 10, Updated: time.Now()})
	c, err := e.GC(t.Context(), GCRequest{})
	if log, _ := os.ReadFile(calls); len(log) > 0 || err != nil {
		t.Errorf("a teardown that is not due was tried: %v\n%s", err, log)
	}
	if len(c.TornDown) > 0 || !strings.Contains(c.Postponed["stuck"], "is due after") {
		t.Errorf("got %+v", c)
	}
	record(t, e, "due", state.Attachment{Network: "n", Interface: "eth0", Batch: onrecord.SetupBatch, Phase: state.Pending, ConfList: fails, Attempts: 10, Updated: time.Now().Add(-time.Hour)})
	if _, err := e.GC(t.Context(), GCRequest{}); err == nil || !strings.Contains(err.Error(), "allocation due") {
		t.Errorf("a teardown that is due was not tried: %v", err)
	}
}
