// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook"
)

// reattacher is an engine of a host with an allocation "gone", which has to be attached again. That
// takes a while, and fails a number of times.
type reattacher struct {
	*host

	takes    time.Duration
	failures int

	mu    sync.Mutex
	calls []time.Duration
	done  bool
}

func (e *reattacher) RepairAttachments(ctx context.Context, r hook.RepairRequest) ([]hook.Drift, error) {
	gone := hook.Drift{Allocation: "gone", Network: "web", Interface: "eth0", Unrepairable: []string{"interface eth0"}}
	if r.Defer {
		drifts, err := e.host.RepairAttachments(ctx, r)
		e.mu.Lock()
		defer e.mu.Unlock()
		if !e.done && !r.Except("gone") {
			gone.Skipped = hook.SkippedReattachment
			drifts = append(drifts, gone)
		}
		return drifts, err
	}
	if !slices.Equal(r.IDs, []string{"gone"}) || r.Mode != hook.RepairReattach || !r.LastChecks || r.Grace != 7*time.Second {
		return nil, errors.New("want one allocation, what its plugins have last said, and the time to stop")
	}
	time.Sleep(e.takes)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, time.Since(e.began))
	if e.done = len(e.calls) > e.failures; e.done {
		gone.Repaired, gone.Reattached = true, true
	} else {
		gone.Err = errors.New("the address is taken")
	}
	return []hook.Drift{gone}, nil
}

func (e *reattacher) callsSoFar() []time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls)
}

func runReattacher(t *testing.T, e *reattacher, test func(r *Repairer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e.host = newHost()
		ctx, cancel := context.WithCancel(t.Context())
		r := New(Config{Engine: e, Watch: e.watch, Observer: e, DrainTimeout: 7 * time.Second, Logger: hclog.NewNullLogger()}, hook.RepairReattach)
		var group sync.WaitGroup
		group.Go(func() { r.Run(ctx) })
		synctest.Wait()
		test(r)
		cancel()
		group.Wait()
	})
}

// TestReattachmentBeside: while an allocation is attached again, others are repaired at once.
func TestReattachmentBeside(t *testing.T) {
	e := &reattacher{takes: time.Minute}
	runReattacher(t, e, func(r *Repairer) {
		sleep(time.Second)
		e.damage("a")
		sleep(time.Second)
		if got := e.repairsOf("a"); !slices.Equal(got, []time.Duration{time.Second + settle}) || len(e.callsSoFar()) > 0 {
			t.Errorf("repaired at %v, attached again at %v", got, e.callsSoFar())
		}
		sleep(2 * time.Minute)
		if got := e.callsSoFar(); !slices.Equal(got, []time.Duration{time.Minute}) || len(r.Status().Damaged) > 0 {
			t.Errorf("attached again at %v, %+v", got, r.Status())
		}
	})
}

// TestReattachmentFails: one that fails is repeated after the pauses of repairs, and shown until then.
func TestReattachmentFails(t *testing.T) {
	e := &reattacher{failures: 5}
	runReattacher(t, e, func(r *Repairer) {
		sleep(time.Second / 2)
		if s := r.Status(); len(s.Damaged) != 1 || s.Damaged[0].Error == "" || repeated(s, "gone") != 1 {
			t.Errorf("%+v", s)
		}
		sleep(5 * time.Minute)
		calls := e.callsSoFar()
		for i := 1; i < len(calls); i++ {
			if pause := calls[i] - calls[i-1]; pause < firstPause<<(i-1) {
				t.Errorf("call %d after %v", i, pause)
			}
		}
		if s := r.Status(); len(calls) != 6 || len(s.Damaged) > 0 {
			t.Errorf("called at %v, %+v", calls, s)
		}
	})
}

// crowded is an engine of a host with many allocations that have to be attached again.
type crowded struct {
	*host

	mu               sync.Mutex
	left             map[string]bool
	at, most, called int
}

func (e *crowded) RepairAttachments(_ context.Context, r hook.RepairRequest) (drifts []hook.Drift, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !r.Defer {
		e.called++
		e.at++
		e.most = max(e.most, e.at)
		e.mu.Unlock()
		time.Sleep(time.Minute)
		e.mu.Lock()
		e.at--
		delete(e.left, r.IDs[0])
		return []hook.Drift{{Allocation: r.IDs[0], Repaired: true, Reattached: true}}, nil
	}
	for _, id := range slices.Sorted(maps.Keys(e.left)) {
		if !r.Except(id) {
			drifts = append(drifts, hook.Drift{Allocation: id, Skipped: hook.SkippedReattachment})
		}
	}
	return drifts, nil
}

// TestReattachmentsOfMany: a few are attached again at once, and the others soon after.
func TestReattachmentsOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &crowded{host: newHost(), left: map[string]bool{}}
		for i := range 3*hook.ParallelReattachments - 1 {
			e.left[fmt.Sprintf("a%02d", i)] = true
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := New(Config{Engine: e, Watch: e.watch, Observer: e, Logger: hclog.NewNullLogger()}, hook.RepairReattach)
		var group sync.WaitGroup
		group.Go(func() { r.Run(ctx) })
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		e.mu.Lock()
		if len(e.left) > 0 || e.most != hook.ParallelReattachments || e.called != 3*hook.ParallelReattachments-1 {
			t.Errorf("left %v, %d at once, %d calls", e.left, e.most, e.called)
		}
		e.mu.Unlock()
		cancel()
		group.Wait()
	})
}

// TestReattachmentsEndAtOnce: all of them are noted, and what was left out is no damage.
func TestReattachmentsEndAtOnce(t *testing.T) {
	r := New(Config{Observer: newHost(), Logger: hclog.NewNullLogger()}, hook.RepairReattach)
	for _, id := range []string{"a", "b"} {
		r.reattachments.ended = append(r.reattachments.ended, reattachment{time.Time{}, []hook.Drift{
			{Allocation: id, Interface: "eth0", Err: errors.New("the address is taken")}, {Allocation: id, Interface: "net1", Skipped: hook.SkippedBusy},
		}})
	}
	if running := r.end(); len(running) > 0 || len(r.known) != 2 || r.known[attachment{"a", "eth0"}].Err == nil || r.known[attachment{"b", "eth0"}].Err == nil {
		t.Errorf("running %v, known %+v, want two failures", running, r.known)
	}
}
