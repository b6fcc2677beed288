// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hook"
)

// host has allocations with one attachment each, and is its engine, observer and events.
type host struct {
	mu sync.Mutex
	// damaged are allocations that lack something, and broken those that cannot be repaired.
	damaged, broken map[string]bool
	// busy are those that another call is changing.
	busy map[string]bool
	// recorded are all that are on record.
	recorded map[string]bool
	rounds   int
	// repairs are the times of each allocation's repairs since the begin, and of failed ones.
	repairs map[string][]time.Duration
	// removedBy are those that have removed what each round found missing of an allocation.
	removedBy map[string][][]hook.Remover
	// took are what the observer was told; drifts the number of attachments.
	took   []time.Duration
	drifts int
	began  time.Time
	events chan Removal
	// checks are the times at which unknown plugins were asked, and hangs is whether they never answer.
	checks []time.Duration
	hangs  bool
	// hears is why events cannot be heard; nil: they can.
	hears error
}

func newHost() *host {
	return &host{damaged: map[string]bool{}, broken: map[string]bool{}, busy: map[string]bool{}, recorded: map[string]bool{}, repairs: map[string][]time.Duration{}, removedBy: map[string][][]hook.Remover{}, began: time.Now(), events: make(chan Removal, 1)}
}

func (h *host) RepairAttachments(_ context.Context, r hook.RepairRequest) (drifts []hook.Drift, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rounds++
	for id := range h.recorded {
		switch {
		case r.Except != nil && r.Except(id) || !h.damaged[id]:
			continue
		case h.busy[id]:
			drifts = append(drifts, hook.Drift{Allocation: id, Skipped: hook.SkippedBusy})
			continue
		}
		d := hook.Drift{Allocation: id, Network: "web", Interface: "eth0", Missing: []string{"a rule in chain one of table nat of iptables"}}
		d.RemovedBy = r.RemovedBy(id, d.Missing)
		h.removedBy[id] = append(h.removedBy[id], d.RemovedBy)
		if r.Mode != hook.RepairReport {
			h.repairs[id] = append(h.repairs[id], time.Since(h.began))
			if d.Repaired = !h.broken[id]; d.Repaired {
				delete(h.damaged, id)
			} else {
				d.Err = errors.New("the kernel refuses it")
			}
		}
		drifts = append(drifts, d)
	}
	return append(drifts, hook.Drift{Allocation: "gone", Skipped: "its namespace is gone"}), nil
}

func (h *host) CheckUnknown(ctx context.Context, r hook.CheckRequest) error {
	if r.Except("a") || r.Every < 5*time.Minute {
		return nil
	}
	h.mu.Lock()
	h.checks = append(h.checks, time.Since(h.began))
	hangs := h.hangs
	h.mu.Unlock()
	if hangs {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (h *host) checksSoFar() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.checks)
}

func (h *host) roundsSoFar() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rounds
}

func (h *host) Drifted(string) { h.drifts++ }

func (h *host) Repaired(_ string, took time.Duration, err error) {
	if err == nil {
		h.took = append(h.took, took)
	}
}

func (h *host) watch(ctx context.Context, removed func(Removal), _ func(error)) error {
	if h.hears != nil {
		return h.hears
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case one := <-h.events:
			removed(one)
		}
	}
}

// damage removes something of allocations, and the kernel tells.
func (h *host) damage(ids ...string) {
	h.damageSilently(ids...)
	h.events <- Removal{}
}

func (h *host) damageSilently(ids ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		h.damaged[id], h.recorded[id] = true, true
	}
}

// sleep returns when a time has passed and all has been done until then.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (h *host) repairsOf(id string) []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.repairs[id])
}

// run runs a repairer of a host in a mode, and ends it after the test.
func run(t *testing.T, mode hook.RepairMode, test func(h *host, r *Repairer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		ctx, cancel := context.WithCancel(t.Context())
		r := New(Config{Engine: h, Watch: h.watch, Observer: h, Logger: hclog.NewNullLogger()}, mode)
		var group sync.WaitGroup
		group.Go(func() { r.Run(ctx) })
		synctest.Wait()
		test(h, r)
		cancel()
		group.Wait()
	})
}

// TestEvent: damage is repaired soon after the kernel has told of it, once, and what took how long
// is counted.
func TestEvent(t *testing.T) {
	run(t, hook.RepairRules, func(h *host, r *Repairer) {
		sleep(time.Second)
		h.damage("a", "b")
		sleep(interval - 1)
		if got := h.repairsOf("a"); !slices.Equal(got, []time.Duration{time.Second + settle}) || h.rounds != 2 {
			t.Errorf("repaired at %v in %d rounds, want %v in the second", got, h.rounds, time.Second+settle)
		}
		if !slices.Equal(h.took, []time.Duration{settle, settle}) || h.drifts != 2 {
			t.Errorf("%d drifts, repaired after %v, want two after %v", h.drifts, h.took, settle)
		}
		if s := r.Status(); len(s.Damaged) > 0 || len(s.Waiting) > 0 {
			t.Errorf("%+v after the repair", s)
		}
	})
}

// TestToldMeanwhile: of damage that a round repairs, the kernel may tell while it runs, and of damage
// that it has not seen too.
func TestToldMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{}, hook.RepairRules)
		began := time.Now()
		if at := r.answer(began); !at.IsZero() {
			t.Errorf("told at %v, want never", at)
		}
		for _, at := range []time.Duration{time.Second, 2 * time.Second} {
			sleep(time.Until(began.Add(at)))
			r.hear(Removal{})
		}
		if at := r.answer(began); at.Sub(began) != time.Second {
			t.Errorf("told after %v, want 1s", at.Sub(began))
		}
		if at := r.answer(began.Add(3 * time.Second)); at.Sub(began) != 2*time.Second {
			t.Errorf("told after %v, want 2s, which may be after the look", at.Sub(began))
		}
		if at := r.answer(began.Add(4 * time.Second)); !at.IsZero() {
			t.Errorf("told at %v, want never: a round has looked since", at)
		}
	})
}

// TestInterval: what the kernel does not tell of is repaired, and its time is not counted.
func TestInterval(t *testing.T) {
	run(t, hook.RepairRules, func(h *host, r *Repairer) {
		h.damageSilently("a")
		sleep(interval + time.Second)
		if got := h.repairsOf("a"); !slices.Equal(got, []time.Duration{interval}) || !slices.Equal(h.took, []time.Duration{0}) {
			t.Errorf("repaired at %v, took %v, want one at %v of an unknown time", got, h.took, interval)
		}
	})
}

// TestBusy: an allocation that another call was changing is repaired soon after that.
func TestBusy(t *testing.T) {
	run(t, hook.RepairRules, func(h *host, r *Repairer) {
		h.busy["a"] = true
		h.damage("a")
		sleep(5 * busyPause / 2)
		h.mu.Lock()
		delete(h.busy, "a")
		h.mu.Unlock()
		sleep(interval - 5*busyPause/2 - 1)
		if got := h.repairsOf("a"); !slices.Equal(got, []time.Duration{settle + 3*busyPause}) || h.rounds != 4 {
			t.Errorf("repaired at %v in %d rounds, want %v in 4", got, h.rounds, settle+3*busyPause)
		}
		if !slices.Equal(h.took, []time.Duration{settle + 3*busyPause}) {
			t.Errorf("repaired after %v, want the time since the kernel told", h.took)
		}
		h.mu.Lock()
		h.busy["a"] = true
		h.mu.Unlock()
		before := h.roundsSoFar()
		h.damage("a")
		sleep(settle + busyPause)
		if got := h.roundsSoFar() - before; got != 2 {
			t.Errorf("%d rounds a second after damage of another busy allocation, want 2", got)
		}
	})
}

// TestBusyShare: while a call hangs, its allocation takes no more of the time than without.
func TestBusyShare(t *testing.T) {
	run(t, hook.RepairRules, func(h *host, r *Repairer) {
		h.busy["a"] = true
		h.damage("a")
		sleep(4 * interval)
		before := h.roundsSoFar()
		sleep(10 * interval)
		if got := h.roundsSoFar() - before; got != 10 {
			t.Errorf("%d rounds in 10 intervals, want 10", got)
		}
	})
}

// TestFight: against a program that keeps removing the same, pauses grow. Other allocations are
// repaired at once meanwhile, and when it ends, the allocation is as well.
func TestFight(t *testing.T) {
	run(t, hook.RepairRules, func(h *host, r *Repairer) {
		for range 600 {
			sleep(time.Second)
			h.damage("a")
		}
		// 5 at once, then after 1, 2, 4, ... seconds: 4 + 8 in the first 512 seconds.
		if got := len(h.repairsOf("a")); got < 10 || got > 14 {
			t.Errorf("%d repairs in 10 minutes: %v", got, h.repairsOf("a"))
		}
		if s := r.Status(); repeated(s, "a") == 0 || len(s.Waiting) != 1 {
			t.Errorf("%+v, want that a was repaired too often", s)
		}
		before := time.Since(h.began)
		h.damage("b")
		sleep(time.Second)
		if got := h.repairsOf("b"); !slices.Equal(got, []time.Duration{before + settle}) {
			t.Errorf("another allocation was repaired at %v, want %v", got, before+settle)
		}
		sleep(2*longestPause + quiet + interval)
		before = time.Since(h.began)
		h.damage("a")
		sleep(time.Second)
		if got := h.repairsOf("a"); got[len(got)-1] != before+settle {
			t.Errorf("after the fight it was repaired at %v, want %v", got[len(got)-1], before+settle)
		}
		if s := r.Status(); len(s.Waiting) > 0 {
			t.Errorf("%+v after the fight", s)
		}
	})
}

// TestFailing: a repair that fails is repeated without an event, with growing pauses.
func TestFailing(t *testing.T) {
	run(t, hook.RepairRules, func(h *host, r *Repairer) {
		h.broken["a"] = true
		h.damage("a")
		sleep(10 * time.Second)
		if got := h.repairsOf("a"); len(got) != 4 || got[3]-got[2] < 4*time.Second {
			t.Errorf("repaired at %v, want pauses of 1, 2, 4, 8 seconds", got)
		}
		if s := r.Status(); len(s.Damaged) != 1 || s.Damaged[0].Error == "" || repeated(s, "a") != 4 {
			t.Errorf("%+v, want the failure", s)
		}
		first := h.began.Add(h.repairsOf("a")[0])
		h.damage("b")
		sleep(time.Second)
		if s := r.Status(); len(h.repairsOf("b")) != 1 || len(s.Damaged) != 1 || s.Damaged[0].Allocation != "a" || !s.Damaged[0].Since.Equal(first) {
			t.Errorf("%+v after a round that left it out, want that it is damaged since %s", s, first)
		}
		if h.drifts != 2 {
			t.Errorf("%d drifts, want that each is counted once", h.drifts)
		}
	})
}

// TestGone: an allocation that is gone is not damaged any more, and one that has its ID afterwards is
// repaired at once.
func TestGone(t *testing.T) {
	run(t, hook.RepairRules, func(h *host, r *Repairer) {
		h.broken["a"] = true
		h.damage("a")
		sleep(2 * time.Minute)
		if s := r.Status(); len(s.Damaged) != 1 || repeated(s, "a") == 0 {
			t.Fatalf("%+v, want a repair that fails", s)
		}
		h.mu.Lock()
		delete(h.recorded, "a")
		delete(h.damaged, "a")
		h.mu.Unlock()
		sleep(interval)
		if s := r.Status(); len(s.Damaged) > 0 || len(s.Waiting) > 0 {
			t.Errorf("%+v of an allocation that is gone", s)
		}
		h.broken["a"] = false
		before := time.Since(h.began)
		h.damage("a")
		sleep(time.Second)
		if got := h.repairsOf("a"); got[len(got)-1] != before+settle {
			t.Errorf("repaired at %v, want %v", got[len(got)-1], before+settle)
		}
	})
}

// TestReport: nothing is repaired until the mode is another one, and then at once.
func TestReport(t *testing.T) {
	run(t, hook.RepairReport, func(h *host, r *Repairer) {
		h.damage("a")
		sleep(5 * interval)
		if s := r.Status(); len(s.Damaged) != 1 || len(s.Waiting) > 0 || len(h.repairsOf("a")) > 0 || h.drifts != 1 {
			t.Errorf("%+v, %d drifts, repaired at %v; want one drift", s, h.drifts, h.repairsOf("a"))
		}
		before := time.Since(h.began)
		r.Configure(hook.RepairRules)
		sleep(time.Second)
		if got := h.repairsOf("a"); !slices.Equal(got, []time.Duration{before + settle}) {
			t.Errorf("repaired at %v, want %v", got, before+settle)
		}
	})
}

// TestOneOfTwoFails: the repair of an allocation has failed if that of one attachment has, whichever comes last. When
// nothing more is missing for a while, nothing is kept of it.
func TestOneOfTwoFails(t *testing.T) {
	r := New(Config{}, hook.RepairRules)
	r.count([]hook.Drift{{Allocation: "a", Interface: "eth0"}, {Allocation: "a", Interface: "net1", Repaired: true}})
	if s := r.series["a"]; s == nil || s.pause() != firstPause {
		t.Fatalf("%+v, want a pause", s)
	}
	end := r.series["a"].end()
	if r.held(end); len(r.series) != 1 {
		t.Error("forgotten before its end")
	}
	if r.held(end.Add(1)); len(r.series) != 0 {
		t.Errorf("%v is kept", r.series)
	}
}

// TestReportedIsNoRepair: what another program's CHECK has reported is damage, and no repair.
func TestReportedIsNoRepair(t *testing.T) {
	h := newHost()
	r := New(Config{Observer: h, Logger: hclog.NewNullLogger()}, hook.RepairRules)
	r.note(hook.Drift{Allocation: "a", Repaired: true, Reported: true}, time.Time{})
	if len(h.took) != 0 || h.drifts != 1 {
		t.Errorf("%d drifts, repaired after %v; want one drift", h.drifts, h.took)
	}
}

// TestDeaf: without events there are rounds at the interval, which is logged once, and a host that is not
// seen has none.
func TestDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		h.hears = errors.New("operation not permitted")
		ctx, stop := context.WithTimeout(t.Context(), 3*interval+time.Second)
		defer stop()
		outside := errors.New("in a container")
		var log strings.Builder
		c := Config{Engine: h, Watch: h.watch, Observer: h, Logger: hclog.New(&hclog.LoggerOptions{Output: &log}), Outside: func() error {
			if time.Since(h.began) < interval {
				return outside
			}
			return nil
		}}
		New(c, hook.RepairRules).Run(ctx)
		sleep(watchPause)
		if h.rounds != 3 {
			t.Errorf("%d rounds, want 3", h.rounds)
		}
		if len(h.checks) == 0 {
			t.Error("unknown plugins are not asked on a host that is seen")
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "damage is noticed at an interval only") {
			t.Errorf("logged %s", text)
		}
	})
}

// TestHardOfHearing: what the kernel does not tell of namespaces is logged once for each reason, also if
// the host is heard again and again.
func TestHardOfHearing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := newHost()
		ctx, stop := context.WithTimeout(t.Context(), 4*watchPause-time.Second)
		defer stop()
		began := time.Now()
		watch := func(_ context.Context, _ func(Removal), deaf func(error)) error {
			deaf(fmt.Errorf("reason %d", time.Since(began)/(2*watchPause)))
			return nil
		}
		New(Config{Engine: h, Watch: watch, Observer: h, Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}, hook.RepairRules).Run(ctx)
		if text := log.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "damage in namespaces is noticed at an interval only") != 2 {
			t.Errorf("logged %s", text)
		}
	})
}

// TestLoggedOnce: what stays missing is logged once, with who has removed it, if that is known.
func TestLoggedOnce(t *testing.T) {
	var log strings.Builder
	r := New(Config{Observer: newHost(), Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}, hook.RepairRules)
	d := hook.Drift{Allocation: "a", Interface: "eth0", Missing: []string{"a rule"}}
	for _, test := range []struct {
		by           []hook.Remover
		missing      string
		logged, told bool
	}{
		{nil, "a rule", true, false}, {nil, "a rule", false, false},
		{[]hook.Remover{{Name: "nft", PID: 12}}, "another rule", true, true}, {nil, "another rule", false, false},
	} {
		log.Reset()
		d.RemovedBy, d.Missing = test.by, []string{test.missing}
		r.note(d, time.Time{})
		r.known[attachment{"a", "eth0"}] = damage{Drift: d}
		if got := log.String(); strings.Contains(got, "an attachment is not repaired") != test.logged || strings.Contains(got, "removed_by") != test.told {
			t.Errorf("%+v: logged %q", test, got)
		}
	}
}

// repeated is how often an allocation was repaired whose next repair waits; 0 of another one.
func repeated(s api.Repair, id string) int {
	for _, w := range s.Waiting {
		if w.Allocation == id {
			return w.Repairs
		}
	}
	return 0
}
