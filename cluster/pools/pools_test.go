// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
)

// run keeps the pools of a host while do runs, in the time of the bubble.
func (h *host) run(t *testing.T, do func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.Run(ctx)
	}()
	synctest.Wait()
	do()
	stop()
	<-ended
	if len(h.keepers) > 0 {
		t.Error("keepers go on after the end")
	}
}

// TestSteps: each step is repeated at its pause, and none beside another.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(t, Settings{}, "a")
		h.run(t, func() {
			time.Sleep(time.Hour)
			p := h.pools["a"]
			for name, want := range map[string][2]int{
				"verify": {3200, 4000}, "maintain": {650, 800}, "adopt": {27, 34}, "reclaim": {6, 8},
				"recover": {650, 800}, "recover always": {1, 1},
			} {
				if n := p.called(name); n < want[0] || n > want[1] {
					t.Errorf("%s ran %d times in an hour, want %d to %d", name, n, want[0], want[1])
				}
			}
			if p.overlaps > 0 {
				t.Errorf("%d steps ran beside another", p.overlaps)
			}
		})
	})
}

// TestAdoptsSoon: what was found unused once is looked at again when it may be adopted.
func TestAdoptsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(t, Settings{}, "a")
		h.pools["a"].adopting = 1
		h.run(t, func() {
			var got []int
			for _, wait := range []time.Duration{time.Second, 39 * time.Second, 15 * time.Second, 90 * time.Second, 60 * time.Second} {
				time.Sleep(wait)
				got = append(got, h.pools["a"].called("adopt"))
			}
			if diff := cmp.Diff([]int{1, 1, 2, 2, 3}, got); diff != "" {
				t.Errorf("scans after 1, 40, 55, 145 and 205 s (-want +got):\n%s", diff)
			}
		})
	})
}

// TestRecover: what only the namespaces know is asked for when the agent starts, until the
// answer is complete, but not where the store is in files.
func TestRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(t, Settings{}, "a")
		h.pools["a"].fail("recover always", errors.New("no answer"))
		h.run(t, func() {
			time.Sleep(time.Minute)
			h.pools["a"].fail("recover always", nil)
			time.Sleep(time.Hour)
			if n := h.pools["a"].called("recover always"); n < 3 || h.pools["a"].called("recover") < 600 {
				t.Errorf("tried %d times, then ran %d times", n, h.pools["a"].called("recover"))
			}
		})
		file := newTestHost(t, Settings{Store: "file"}, "a")
		file.run(t, func() {
			time.Sleep(time.Minute)
			if n := file.pools["a"].called("recover always"); n > 0 {
				t.Errorf("asked %d times although the store is in files", n)
			}
		})
	})
}

// TestReports: each kind of problem is told once when it has begun, and once when it has ended, within a minute.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		h := newTestHost(t, Settings{}, "a")
		h.config.Problem = func(pool string, p Problem, ended bool) {
			told = append(told, fmt.Sprint(pool, " ", p.Kind, " ", p.Text, " ", ended))
		}
		p := h.pools["a"]
		h.run(t, func() {
			time.Sleep(time.Minute)
			p.fail("maintain", fmt.Errorf("%w: node b", ipam.ErrTwin))
			time.Sleep(time.Minute)
			p.fail("verify", ipam.ErrUnavailable)
			time.Sleep(time.Minute)
			p.fail("maintain", nil)
			time.Sleep(10 * time.Minute)
		})
		want := []string{"a twin " + ipam.ErrTwin.Error() + ": node b false", "a unavailable " + ipam.ErrUnavailable.Error() + " false", "a twin  true"}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// TestReportsOfReplaced: a problem that lasts is told once, also if the settings change or the pool cannot be used for a while, and
// has ended when no network uses the pool any more.
func TestReportsOfReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		h := newTestHost(t, Settings{}, "a")
		h.config.Problem = func(pool string, p Problem, ended bool) {
			told = append(told, fmt.Sprint(pool, " ", p.Kind, " ", ended))
		}
		h.pools["a"].fail("maintain", ipam.ErrTwin)
		found := h.configs
		h.run(t, func() {
			time.Sleep(time.Minute)
			h.Configure(Settings{Grace: time.Minute})
			time.Sleep(time.Minute)
			h.mu.Lock()
			h.configs, h.broken = nil, map[string]error{"a": errors.New("a syntax error")}
			h.mu.Unlock()
			time.Sleep(time.Minute)
			h.mu.Lock()
			h.configs, h.broken = found, nil
			h.mu.Unlock()
			time.Sleep(time.Minute)
			if diff := cmp.Diff([]string{"a twin false"}, told); diff != "" {
				t.Errorf("while it lasts: -want +got:\n%s", diff)
			}
			h.finds(nil)
			time.Sleep(time.Minute)
		})
		if diff := cmp.Diff([]string{"a twin false", "a twin true"}, told); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// TestManual: the blocks of nodes that are gone are left alone.
func TestManual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(t, Settings{KeepDead: true}, "a")
		h.run(t, func() {
			time.Sleep(time.Hour)
			if n := h.pools["a"].called("reclaim"); n > 0 {
				t.Errorf("reclaimed %d times", n)
			}
		})
	})
}

// TestFailures: a step that fails is repeated less and less often, does not keep the others
// from running, and is logged once for each kind of error.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(t, Settings{}, "a")
		p := h.pools["a"]
		p.fail("verify", fmt.Errorf("list 1: %w", ipam.ErrUnavailable))
		h.run(t, func() {
			time.Sleep(time.Hour)
			if n := p.called("verify"); n < 30 || n > 50 {
				t.Errorf("tried %d times in an hour", n)
			}
			if n := p.called("maintain"); n < 650 {
				t.Errorf("maintained %d times", n)
			}
			p.fail("verify", fmt.Errorf("list: %w", ipam.ErrRefused))
			time.Sleep(time.Hour)
			p.fail("verify", nil)
			time.Sleep(time.Hour)
			requireLogged(t, h.log.String(), "step=verify",
				`a step failed, and is repeated: pool=a step=verify error="list 1: the store is unavailable"`,
				`a step failed, and is repeated: pool=a step=verify error="list: the store refuses access"`,
				`a step succeeds again: pool=a step=verify`)
			if n := p.called("verify"); n < 3000 {
				t.Errorf("after the failure: %d times", n)
			}
		})
	})
}

// TestHanging: a step that hangs is ended at its limit, and those after it run.
func TestHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(t, Settings{}, "a", "b")
		p := h.pools["a"]
		p.hang = map[string]bool{"maintain": true}
		h.run(t, func() {
			time.Sleep(10 * time.Minute)
			if n, other := p.called("verify"), h.pools["b"].called("verify"); n < 50 || other < 500 {
				t.Errorf("verified %d times, and the other pool %d times", n, other)
			}
			if s := h.Status(t.Context()); len(s) != 2 || len(s[0].Problems) != 1 || s[0].Problems[0].Text != "took too long" {
				t.Errorf("status %+v", s)
			}
		})
	})
}

// TestReload: pools come and go with the networks, a changed one is opened again, and changed
// settings reach all.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(t, Settings{Fence: time.Hour}, "a", "b")
		h.run(t, func() {
			h.finds(nil, parsed(t, "b", ""))
			time.Sleep(findPause + time.Second)
			synctest.Wait()
			before := h.pools["a"].called("maintain")
			time.Sleep(time.Minute)
			if n := h.pools["a"].called("maintain"); n != before {
				t.Errorf("the pool of a removed network is maintained %d times", n-before)
			}
			if n := len(h.opened); n != 2 {
				t.Fatalf("opened %d times without a change", n)
			}
			changed := parsed(t, "b", `, "cooldown": "5s"`)
			h.finds(nil, changed)
			time.Sleep(findPause + time.Second)
			h.Configure(Settings{Grace: time.Minute})
			synctest.Wait()
			if want := (Settings{Grace: time.Minute, Fence: 20 * time.Hour}); len(h.opened) != 4 || h.opened[2].Fence != time.Hour || h.opened[3] != want {
				t.Errorf("opened with %+v, want last %+v", h.opened, want)
			}
			h.finds(errors.New("the directory cannot be read"), changed)
			time.Sleep(findPause + time.Second)
			synctest.Wait()
			if s := h.Status(t.Context()); len(s) != 2 || s[0].Problems[0].Text != "the directory cannot be read" || s[1].Pool != "b" {
				t.Errorf("with an unreadable directory: %+v", s)
			}
		})
	})
}

// TestBroken: a pool that cannot be used is reported once, and does not keep others from being
// kept.
func TestBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(t, Settings{}, "a")
		h.broken = map[string]error{"a": errors.New("30-a.conf: other directories"), "x": fmt.Errorf("20-x.conf: %w", ipam.ErrMismatch)}
		h.configs = append(h.configs, parsed(t, "closed", ""))
		h.run(t, func() {
			time.Sleep(10 * time.Minute)
			got := strings.Join(h.NotReady(t.Context()), "\n")
			want := "pool a: 30-a.conf: other directories\npool closed: no such pool\npool x: 20-x.conf: the pool is configured differently on other hosts"
			if got != want {
				t.Errorf("not ready because of\n%s\nwant\n%s", got, want)
			}
			if len(h.broken) != 2 {
				t.Errorf("what was found has changed: %v", h.broken)
			}
			if n := strings.Count(h.log.String(), "is not kept: pool=x"); n != 1 || h.pools["a"].called("verify") == 0 {
				t.Errorf("logged %d times\n%s", n, h.log)
			}
		})
	})
}

// requireLogged compares the lines that contain a word, without time and level.
func requireLogged(t *testing.T, log, word string, want ...string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, word) {
			_, text, _ := strings.Cut(line, "]")
			lines = append(lines, strings.TrimSpace(text))
		}
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

// TestFree: an attachment needs an address of each family.
func TestFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(t, Settings{}, "dual", "fenced", "new")
		families := []pool.FamilyUsage{{Family: ipam.IPv4, Count: pool.Count{Free: 5}}, {Family: ipam.IPv6, Count: pool.Count{Free: 3}}}
		h.pools["dual"].usage = pool.Usage{Families: families}
		h.pools["fenced"].usage = pool.Usage{Families: families, Fenced: true}
		h.run(t, func() {
			if diff := cmp.Diff(map[string]int{"dual": 3, "fenced": 0}, h.Free(t.Context())); diff != "" {
				t.Error(diff)
			}
		})
	})
}

// TestKept: others see the pools that are kept, whether there may be more, and when this may have
// changed.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(t, Settings{}, "a", "b")
		changes := 0
		h.config.Changed = func() { changes++ }
		if kept, complete := h.Kept(); len(kept) > 0 || complete {
			t.Errorf("before the networks are read: %v, %t", kept, complete)
		}
		h.run(t, func() {
			kept, complete := h.Kept()
			if len(kept) != 2 || !complete || changes != 1 {
				t.Errorf("%v, %t, %d changes", kept, complete, changes)
			}
			for _, k := range kept {
				if k.Pool != Pool(h.pools[k.Config.Pool]) {
					t.Errorf("pool %s is another one", k.Config.Pool)
				}
			}
			h.finds(nil, h.configs[0], parsed(t, "unknown", ""))
			h.Kick()
			synctest.Wait()
			if kept, complete := h.Kept(); len(kept) != 1 || complete || changes != 2 {
				t.Errorf("with a pool that cannot be opened: %v, %t, %d changes", kept, complete, changes)
			}
		})
	})
}
