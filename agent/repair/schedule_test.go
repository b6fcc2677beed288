// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitRound: a round begins soon after an event, but not while more come, and rounds do not
// take more than a share of the time.
func TestAwaitRound(t *testing.T) {
	for name, test := range map[string]struct {
		events []time.Duration // when they come
		took   time.Duration
		due    time.Duration // of an allocation; 0: none
		want   time.Duration
		first  time.Duration
	}{
		"without an event":          {want: interval},
		"one event":                 {events: []time.Duration{2 * time.Second}, want: 2*time.Second + settle, first: 2 * time.Second},
		"two events":                {events: []time.Duration{2 * time.Second, 2*time.Second + settle/2}, want: 2*time.Second + 3*settle/2, first: 2 * time.Second},
		"a stream":                  {events: every(settle/2, 100), want: settle/2 + longestSettle, first: settle / 2},
		"after a long round":        {events: []time.Duration{1}, took: time.Second, want: restShare * time.Second, first: 1},
		"after a very long round":   {events: []time.Duration{1}, took: time.Minute, want: restShare * time.Minute, first: 1},
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
				first := awaitRound(t.Context(), events, test.took, at)
				defer synctest.Wait()
				defer time.Sleep(time.Minute) // the events end
				if got := time.Since(began); got != test.want {
					t.Errorf("begins after %v, want %v", got, test.want)
				}
				if test.first == 0 && !first.IsZero() || test.first != 0 && first.Sub(began) != test.first {
					t.Errorf("first event %v after the begin, want %v", first.Sub(began), test.first)
				}
			})
		})
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
		if first := awaitRound(ctx, nil, 0, time.Time{}); !first.IsZero() || time.Since(began) != time.Second {
			t.Errorf("%v after %v", first, time.Since(began))
		}
	})
}
