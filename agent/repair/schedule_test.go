// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/hook"
)

// TestAwaitRound: a round begins soon after an event, but not while more come, and rounds do not
// take more than a share of the time.
func TestAwaitRound(t *testing.T) {
	for name, test := range map[string]struct {
		events []time.Duration // when they come
		took   time.Duration
		due    time.Duration // of an allocation; 0: none
		want   time.Duration
	}{
		"without an event":          {want: interval},
		"one event":                 {events: []time.Duration{2 * time.Second}, want: 2*time.Second + settle},
		"two events":                {events: []time.Duration{2 * time.Second, 2*time.Second + settle/2}, want: 2*time.Second + 3*settle/2},
		"a stream":                  {events: every(settle/2, 100), want: settle/2 + longestSettle},
		"after a long round":        {events: []time.Duration{1}, took: time.Second, want: restShare * time.Second},
		"after a very long round":   {events: []time.Duration{1}, took: time.Minute, want: restShare * time.Minute},
		"without, after such a one": {took: time.Minute, want: idleShare * time.Minute},
		"an allocation is due":      {due: 3 * time.Second, want: 3 * time.Second},
		"it is due already":         {due: -time.Second, took: time.Second, want: restShare * time.Second},
		"it is due late":            {due: time.Hour, want: interval},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				events := make(chan struct{}, 1)
				go send(events, test.events)
				var at time.Time
				if test.due != 0 {
					at = began.Add(test.due)
				}
				awaitRound(t.Context(), events, test.took, restShare*test.took, at)
				defer synctest.Wait()
				defer time.Sleep(time.Minute) // the events end
				if got := time.Since(began); got != test.want {
					t.Errorf("begins after %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestRests: the first rounds after a quiet time follow each other at once, and many rounds take a
// fifth of the time.
func TestRests(t *testing.T) {
	const took, rounds = time.Second, 100
	began := time.Now()
	var owed rests
	now := began
	for round := range rounds {
		now = now.Add(took)
		rest := owed.after(now, took)
		if prompt := rest == 0; prompt != (round < 5) {
			t.Errorf("after round %d: a rest of %v", round, rest)
		}
		now = now.Add(rest)
	}
	if got, want := now.Sub(began), rounds*(1+restShare)*took-restCredit; got != want {
		t.Errorf("%d rounds took %v, want %v", rounds, got, want)
	}
	now = now.Add(time.Minute)
	if rest := owed.after(now.Add(took), took); rest != 0 {
		t.Errorf("a rest of %v after a quiet minute", rest)
	}
}

// TestNextDue: an allocation that waits is due after its pause, and one that was repaired is not.
func TestNextDue(t *testing.T) {
	began := time.Now()
	for name, test := range map[string]struct {
		last   series
		failed bool
		want   time.Time
	}{
		"repaired":       {want: time.Time{}},
		"failed":         {failed: true, want: began.Add(time.Second + firstPause)},
		"once too often": {last: series{count: promptRepairs - 1, last: began}, want: began.Add(time.Second + firstPause)},
	} {
		r := New(Config{}, hook.RepairRules)
		test.last.repaired(began.Add(time.Second), test.failed)
		r.series["a"] = &test.last
		if next := r.nextDue(began); !next.Equal(test.want) {
			t.Errorf("%s: the next round is at %v, want %v", name, next, test.want)
		}
	}
}

func every(d time.Duration, n int) (times []time.Duration) {
	for i := range n {
		times = append(times, time.Duration(i+1)*d)
	}
	return times
}

// send sends a value at each of the times, unless one is waiting.
func send(events chan<- struct{}, times []time.Duration) {
	began := time.Now()
	for _, at := range times {
		time.Sleep(at - time.Since(began))
		select {
		case events <- struct{}{}:
		default:
		}
	}
}

// TestAwaitEnds: nothing is waited for when the context ends.
func TestAwaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		began := time.Now()
		if awaitRound(ctx, nil, 0, 0, time.Time{}); time.Since(began) != time.Second {
			t.Errorf("it ends after %v", time.Since(began))
		}
	})
}
