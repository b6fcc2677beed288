// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"testing"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/state"
)

// TestInterruptedForget keeps the record: what was not attempted may be removed by a further call.
func TestInterruptedForget(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	e := fakeEngine(t, func(c *Config) {
		c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error {
			interrupt()
			errs := make([]error, len(left))
			for i := range errs {
				errs[i] = errors.New("interrupted")
			}
			return errs
		})
	})
	failing := fakeList(t, "n", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"DEL": {Code: 100, Msg: "broken"}}})
	record(t, e, "a", state.Attachment{Network: "n", Interface: "eth0", Batch: setupBatch, Phase: state.Attached, ConfList: failing})
	if err := e.Forget(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Forget: %v, want context.Canceled", err)
	}
	if _, err := e.Status(t.Context(), "a"); err != nil {
		t.Errorf("on record: %v", err)
	}
}
