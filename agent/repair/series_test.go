// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"slices"
	"testing"
	"time"
)

// TestSeries: some repairs are prompt, then the pauses grow to a limit.
func TestSeries(t *testing.T) {
	now := time.Unix(0, 0)
	var s series
	var pauses []time.Duration
	for range 16 {
		s.repaired(now, false)
		pauses = append(pauses, s.due().Sub(now))
		now = s.due()
	}
	want := make([]time.Duration, 4, 16)
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300} {
		want = append(want, time.Duration(seconds)*time.Second)
	}
	if !slices.Equal(pauses, want) {
		t.Errorf("%v, want %v", pauses, want)
	}
	for range 1000 { // no overflow
		s.repaired(s.due(), false)
	}
	if s.pause() != longestPause {
		t.Errorf("pause is %v, want %v", s.pause(), longestPause)
	}
}

// TestSeriesEnds: after a time without a repair the next one is prompt.
func TestSeriesEnds(t *testing.T) {
	now := time.Unix(0, 0)
	var s series
	for range promptRepairs {
		s.repaired(now, false)
	}
	if s.pause() != firstPause {
		t.Fatalf("%+v after %d repairs", s, promptRepairs)
	}
	continued := s
	continued.repaired(s.end(), false)
	if continued.pause() != 2*firstPause {
		t.Error("a repair before the end of the series begins another one")
	}
	s.repaired(s.end().Add(1), false)
	if s.count != 1 || s.pause() != 0 {
		t.Errorf("%+v, want a new series", s)
	}
}

// TestFailures: a repair that fails is not repeated at once.
func TestFailures(t *testing.T) {
	now := time.Unix(0, 0)
	var s series
	s.repaired(now, true)
	if s.pause() != firstPause {
		t.Errorf("pause after a failure is %v, want %v", s.pause(), firstPause)
	}
	s.repaired(s.due(), true)
	if s.pause() != 2*firstPause {
		t.Errorf("pause after two failures is %v, want %v", s.pause(), 2*firstPause)
	}
}
