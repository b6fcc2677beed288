// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook"
)

// TestUnknownPlugins: they are asked at the interval, but not while events come.
func TestUnknownPlugins(t *testing.T) {
	run(t, hook.RepairRules, func(h *host, r *Repairer) {
		for range 60 {
			sleep(time.Second)
			h.events <- Removal{}
		}
		if got := h.checksSoFar(); len(got) > 0 {
			t.Errorf("asked at %v, while events came", got)
		}
		sleep(2 * interval)
		if got, want := h.checksSoFar(), []time.Duration{3 * interval, 4 * interval}; !slices.Equal(got, want) {
			t.Errorf("asked at %v, want %v", got, want)
		}
	})
}

// TestNeverCalm: a task that keeps making events delays what is asked of the plugins of others, and does
// not prevent it.
func TestNeverCalm(t *testing.T) {
	run(t, hook.RepairRules, func(h *host, r *Repairer) {
		const every = calm - calm/20
		for range 4 * longestCalm / every {
			sleep(every)
			h.events <- Removal{}
		}
		if got, want := h.checksSoFar(), []time.Duration{longestCalm, 2 * longestCalm, 3 * longestCalm}; !slices.Equal(got, want) {
			t.Errorf("asked at %v, want %v", got, want)
		}
	})
}

// TestUnknownPluginsHang: what can be repaired is repaired at once meanwhile.
func TestUnknownPluginsHang(t *testing.T) {
	run(t, hook.RepairRules, func(h *host, r *Repairer) {
		h.mu.Lock()
		h.hangs = true
		h.mu.Unlock()
		sleep(interval + time.Second)
		h.damage("a")
		sleep(time.Second)
		got, checks := h.repairsOf("a"), h.checksSoFar()
		if len(checks) != 1 || !slices.Equal(got, []time.Duration{interval + time.Second + settle}) {
			t.Errorf("repaired at %v, asked at %v", got, checks)
		}
	})
}

// answers is an engine that finds the same each time.
type answers struct {
	*host

	drifts []hook.Drift
}

func (a *answers) RepairAttachments(context.Context, hook.RepairRequest) ([]hook.Drift, error) {
	return slices.Clone(a.drifts), nil
}

// TestReportedOutcome: what unknown plugins have said is shown, and no repair: other attachments
// of the allocation do not wait for it. While a call has locked the allocation, it is shown too.
func TestReportedOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := hook.Drift{Allocation: "a", Network: "web", Interface: "eth0", Err: errors.New("the plugin says no"), Reported: true}
		engine := &answers{host: newHost()}
		r := New(Config{Engine: engine, Observer: engine, Logger: hclog.NewNullLogger()}, hook.RepairRules)
		for _, found := range []hook.Drift{failed, failed, {Allocation: "a", Skipped: hook.SkippedBusy}, failed} {
			engine.drifts = []hook.Drift{found}
			r.round(t.Context())
			if s := r.Status(); len(s.Damaged) != 1 || s.Damaged[0].Error == "" || len(s.Waiting) > 0 {
				t.Errorf("%+v after %+v", s, found)
			}
		}
		if len(r.series) > 0 || engine.host.drifts != 1 {
			t.Errorf("%d repairs are counted, and %d drifts, want none and one", len(r.series), engine.host.drifts)
		}
		engine.drifts = []hook.Drift{{Allocation: "a", Skipped: "its namespace is gone"}}
		if r.round(t.Context()); len(r.Status().Damaged) > 0 {
			t.Errorf("%+v without the namespace", r.Status())
		}
	})
}
