// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
)

// leaky is a collector that finds a report.
type leaky struct{ report *cleanup.Report }

func (l leaky) GC(context.Context, hook.GCRequest) (*hook.Collected, error) {
	return &hook.Collected{Leaks: l.report}, nil
}

// TestLeaks: what a round left, with the reason; where leaks are only reported, that is all of
// them.
func TestLeaks(t *testing.T) {
	object := func(kind cleanup.Kind, where, blocked string) cleanup.Object {
		return cleanup.Object{Kind: kind, Where: where, Blocked: blocked, Owner: cleanup.Owner{Network: "web", Allocation: "a"}}
	}
	removed, stays, blocked, used := object("lease", "/l/1", ""), object("chain", "nat CNI-1", ""), object("file", "/f", "not ours"), object("link", "veth1", "")
	report := &cleanup.Report{
		Decisions: []cleanup.Decision{
			{Object: removed, Leaked: true, Reason: "dead"}, {Object: stays, Leaked: true, Reason: "dead"},
			{Object: blocked, Leaked: true, Reason: "dead"}, {Object: used, Reason: "alive"},
		},
		Failures: []cleanup.Failure{{Object: stays, Err: errors.New("busy")}, {Object: blocked, Err: errors.New("not ours")}},
		Problems: []cleanup.Problem{{Where: "nft", Reason: "missing"}},
	}
	reconciler := NewReconciler(ReconcilerConfig{Collector: leaky{report}, Metrics: NewMetrics(prometheus.NewRegistry())})
	r := start(t, Config{Leaks: reconciler.Leaks}, &scripted{})
	get := func() *api.Leaks {
		t.Helper()
		if status, _, body := r.exchange("GET", "/v1/leaks", ""); status != 200 {
			t.Fatalf("status %d: %s", status, body)
		}
		got, err := r.client.Leaks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if diff := cmp.Diff(&api.Leaks{Leaks: []api.Leak{}, Problems: []string{}}, get()); diff != "" {
		t.Errorf("before a round: %s", diff)
	}
	leak := func(kind, where, err string) api.Leak {
		return api.Leak{Kind: kind, Where: where, Allocation: "a", Network: "web", Reason: "dead", Error: err}
	}
	for _, test := range []struct {
		report bool
		want   []api.Leak
	}{
		{false, []api.Leak{leak("chain", "nat CNI-1", "busy"), leak("file", "/f", "not ours")}},
		{true, []api.Leak{leak("lease", "/l/1", ""), leak("chain", "nat CNI-1", "busy"), leak("file", "/f", "not ours")}},
	} {
		reconciler.Configure(time.Hour, test.report)
		before := time.Now()
		if _, err := reconciler.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := get()
		if got.Examined.Before(before.Add(-time.Second)) || got.Examined.After(time.Now()) {
			t.Errorf("examined at %s, want about %s", got.Examined, before)
		}
		if diff := cmp.Diff(&api.Leaks{Examined: got.Examined, Leaks: test.want, Problems: []string{"nft: missing"}}, got); diff != "" {
			t.Errorf("report only %v: %s", test.report, diff)
		}
	}
	if status, _, body := start(t, Config{}, &scripted{}).exchange("GET", "/v1/leaks", ""); status != 501 {
		t.Errorf("without a reconciler: status %d: %s", status, body)
	}
	if status, _, body := r.exchange("GET", "/v1/leaks", "{}"); status != 400 {
		t.Errorf("with a body: status %d: %s", status, body)
	}
}
