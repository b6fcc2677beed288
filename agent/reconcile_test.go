// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
)

// dead is a collector that has allocations whose namespaces are gone, and leaks.
type dead struct {
	ids    []string
	leaks  map[cleanup.Kind]int
	rounds atomic.Int64
	// abandoned are those that the last round may tear down although their namespaces exist.
	abandoned []string
}

func (d *dead) GC(ctx context.Context, r hook.GCRequest) (*hook.Collected, error) {
	live := cleanup.Live(cleanup.NoneLive)
	if r.Live != nil {
		var err error
		if live, err = r.Live(ctx); err != nil {
			return nil, err
		}
	}
	d.rounds.Add(1)
	if r.Abandoned != nil {
		var err error
		if d.abandoned, err = r.Abandoned(); err != nil {
			return nil, err
		}
	}
	c := &hook.Collected{Leaks: &cleanup.Report{}}
	for _, id := range d.ids {
		if live(id) == "" {
			c.TornDown = append(c.TornDown, id)
		}
	}
	for kind, n := range d.leaks {
		for range n {
			c.Leaks.Decisions = append(c.Leaks.Decisions, cleanup.Decision{Object: cleanup.Object{Kind: kind}, Leaked: true})
		}
	}
	if r.Leaks == hook.RemoveLeaks {
		clear(d.leaks)
	}
	return c, nil
}

type liveFunc func() (map[string]bool, error)

func (f liveFunc) Live(context.Context) (map[string]bool, error) { return f() }

func (f liveFunc) Ended() []string { return nil }

func (f liveFunc) Prune(map[string]bool) error { return nil }

func TestUnknownRemovesNothing(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	d := &dead{ids: []string{"a", "b"}, leaks: map[cleanup.Kind]int{"chain": 2}}
	var known map[string]bool
	r := NewReconciler(ReconcilerConfig{Collector: d, Metrics: m, Live: liveFunc(func() (map[string]bool, error) {
		if known == nil {
			return nil, errors.New("no route to host")
		}
		return known, nil
	})})
	if _, err := r.Collect(context.Background()); err == nil || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("unknown: %v", err)
	}
	if d.rounds.Load() != 0 || d.leaks["chain"] != 2 {
		t.Errorf("something was done: %d rounds, %v", d.rounds.Load(), d.leaks)
	}
	known = map[string]bool{"b": true}
	c, err := r.Collect(context.Background())
	if err != nil || len(c.TornDown) != 1 || c.TornDown[0] != "a" {
		t.Errorf("torn down %v, %v", c.TornDown, err)
	}
	for name, got := range map[string]float64{
		"allocations found":   testutil.ToFloat64(m.found.WithLabelValues("allocation")) - 1,
		"allocations removed": testutil.ToFloat64(m.removed.WithLabelValues("allocation")) - 1,
		"chains removed":      testutil.ToFloat64(m.removed.WithLabelValues("chain")) - 2,
		"unknown rounds":      testutil.ToFloat64(m.rounds.WithLabelValues("unknown")) - 1,
		"rounds":              testutil.ToFloat64(m.rounds.WithLabelValues("done")) - 1,
	} {
		if got != 0 {
			t.Errorf("%s: off by %v", name, got)
		}
	}
}

// forgetful is an orchestrator that answers once, and has to keep the data of what lives.
type forgetful struct {
	*testing.T

	asked int
}

func (f *forgetful) Live(context.Context) (map[string]bool, error) {
	if f.asked++; f.asked > 1 {
		return nil, errors.New("no route to host")
	}
	return map[string]bool{"alive": true}, nil
}

func (*forgetful) Ended() []string { return nil }

func (f *forgetful) Prune(live map[string]bool) error {
	if !live["alive"] {
		f.Error("the data of a live allocation is dropped")
	}
	return nil
}

// twice is a collector that asks which allocations live for each of its two steps.
type twice struct{}

func (twice) GC(ctx context.Context, r hook.GCRequest) (*hook.Collected, error) {
	_, first := r.Live(ctx)
	_, second := r.Live(ctx)
	return &hook.Collected{}, errors.Join(first, second)
}

// TestUnknownMeanwhile: if the orchestrator fails during a round, nothing of it is dropped.
func TestUnknownMeanwhile(t *testing.T) {
	r := NewReconciler(ReconcilerConfig{Collector: twice{}, Metrics: NewMetrics(prometheus.NewRegistry()), Live: &forgetful{T: t}})
	if _, err := r.Collect(t.Context()); err == nil || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("got %v", err)
	}
}

// TestOutsideRemovesNothing: an agent that does not see the host's namespaces removes
// nothing.
func TestOutsideRemovesNothing(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	d := &dead{ids: []string{"a"}, leaks: map[cleanup.Kind]int{"chain": 2}}
	r := NewReconciler(ReconcilerConfig{Collector: d, Metrics: m, Outside: func() error { return errors.New("in a container") }})
	if _, err := r.Collect(context.Background()); err == nil || !strings.Contains(err.Error(), "in a container") {
		t.Errorf("got %v", err)
	}
	if d.rounds.Load() != 0 || d.leaks["chain"] != 2 || testutil.ToFloat64(m.rounds.WithLabelValues("unknown")) != 1 {
		t.Errorf("something was done: %d rounds, %v", d.rounds.Load(), d.leaks)
	}
}

// hanging is a collector whose first round lasts until it is released.
type hanging struct{ release chan struct{} }

func (h hanging) GC(context.Context, hook.GCRequest) (*hook.Collected, error) {
	<-h.release
	return &hook.Collected{}, nil
}

// TestRoundWhileAnotherRuns: a request waits for the round that runs until its own deadline.
func TestRoundWhileAnotherRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hanging{make(chan struct{})}
		r := NewReconciler(ReconcilerConfig{Collector: h, Metrics: NewMetrics(prometheus.NewRegistry())})
		first := make(chan error, 1)
		go func() {
			_, err := r.Collect(context.Background())
			first <- err
		}()
		synctest.Wait()
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		if _, err := r.Collect(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another round") {
			t.Errorf("beside a round that hangs: %v, want the deadline", err)
		}
		close(h.release)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if _, err := r.Collect(context.Background()); err != nil {
			t.Errorf("after it: %v", err)
		}
	})
}

func TestReportOnly(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	d := &dead{leaks: map[cleanup.Kind]int{"lease": 3}}
	r := NewReconciler(ReconcilerConfig{Collector: d, Metrics: m})
	r.Configure(time.Hour, true)
	if _, err := r.Collect(context.Background()); err != nil {
		t.Fatal(err)
	}
	found, removed := testutil.ToFloat64(m.found.WithLabelValues("lease")), testutil.ToFloat64(m.removed.WithLabelValues("lease"))
	if found != 3 || removed != 0 || d.leaks["lease"] != 3 {
		t.Errorf("found %v, removed %v, left %v", found, removed, d.leaks)
	}
}

// ended is an orchestrator that has ended one allocation, and left its namespace.
type ended struct{ liveFunc }

func (ended) Ended() []string { return []string{"left"} }

// TestReportedAbandoned: what the orchestrator has left is torn down after an interval, unless leaks are only reported.
func TestReportedAbandoned(t *testing.T) {
	for report, want := range map[bool]int{false: 1, true: 0} {
		synctest.Test(t, func(t *testing.T) {
			d := &dead{}
			r := NewReconciler(ReconcilerConfig{Collector: d, Metrics: NewMetrics(prometheus.NewRegistry()), Live: ended{func() (map[string]bool, error) { return map[string]bool{}, nil }}})
			r.abandoned.unused = func(paths []string) ([]string, error) { return paths, nil }
			r.Configure(time.Minute, report)
			for range 2 {
				if _, err := r.Collect(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
			}
			if len(d.abandoned) != want {
				t.Errorf("report is %t: %q may be torn down, want %d", report, d.abandoned, want)
			}
		})
	}
}

func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dead{}
		r := NewReconciler(ReconcilerConfig{Collector: d, Metrics: NewMetrics(prometheus.NewRegistry())})
		ctx, stop := context.WithCancel(context.Background())
		if r.FirstRoundDone() {
			t.Error("complete before the first round")
		}
		go r.Run(ctx)
		synctest.Wait()
		if d.rounds.Load() != 1 || !r.FirstRoundDone() {
			t.Errorf("at the start: %d rounds", d.rounds.Load())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if d.rounds.Load() != 2 {
			t.Errorf("after the interval: %d rounds", d.rounds.Load())
		}
		r.Kick()
		r.Kick()
		synctest.Wait()
		if d.rounds.Load() < 3 || d.rounds.Load() > 4 {
			t.Errorf("after a kick: %d rounds", d.rounds.Load())
		}
		stop()
		synctest.Wait()
	})
}
