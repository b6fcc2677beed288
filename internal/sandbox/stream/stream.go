// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package stream is steady traffic of the tests while something fails: new connections, and
// established ones; and what packets of established flows cost.
package stream

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// Way leads from the network namespace at a path to an address.
type Way struct{ Name, From, To string }

const (
	// Step is the time between two bytes of a Talk, and what it should be between two connections
	// of a Stream unless there are many.
	Step = 40 * time.Millisecond
	// lost is when a connection that is not established has failed: before TCP sends its first
	// packet once more, so what repairs the way later is seen by later ones alone.
	lost = 500 * time.Millisecond
)

// Stream makes a new connection at each step.
type Stream struct {
	way Way
	ns  *netns.Namespace

	mu       sync.Mutex // guards attempts
	attempts []attempt
}

// attempt is one connection of a stream.
type attempt struct {
	began           time.Time
	ended, answered bool
}

// Start starts a stream, which ends with the test.
func Start(t testing.TB, w Way, step time.Duration) *Stream {
	t.Helper()
	ns, err := netns.Open(w.From)
	if err != nil {
		t.Fatal(err)
	}
	s := &Stream{way: w, ns: ns}
	ticker, done := time.NewTicker(step), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ; i++ {
			s.mu.Lock()
			s.attempts = append(s.attempts, attempt{began: time.Now()})
			s.mu.Unlock()
			group.Go(func() { s.connect(i) })
			select {
			case <-ticker.C:
			case <-done:
				return
			}
		}
	})
	t.Cleanup(func() {
		ticker.Stop()
		close(done)
		group.Wait()
		_ = ns.Close()
	})
	return s
}

func (s *Stream) connect(i int) {
	err := s.ns.Do(func() error {
		conn, err := net.DialTimeout("tcp", s.way.To, lost)
		if err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0) // the next ones need ports
			_ = conn.Close()
		}
		return err
	})
	s.mu.Lock()
	s.attempts[i].ended, s.attempts[i].answered = true, err == nil
	s.mu.Unlock()
}

// flows tells whether a connection that began after a time was established, and all before it have
// been or have failed.
func (s *Stream) flows(after time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.attempts {
		switch {
		case !a.ended:
			return false
		case a.answered && a.began.After(after):
			return true
		}
	}
	return false
}

// gap is the time from the damage to the first connection after the last that has failed; 0 if
// none has.
func (s *Stream) gap(damage time.Time) (gap time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := false
	for _, a := range s.attempts {
		switch {
		case a.began.Before(damage) || !a.ended:
		case !a.answered:
			failed = true
		case failed:
			gap, failed = a.began.Sub(damage), false
		}
	}
	return gap
}

// AwaitFlow waits until connections of each stream are established that begin from now on.
func AwaitFlow(t testing.TB, streams []*Stream) {
	t.Helper()
	now := time.Now()
	for _, s := range streams {
		sandbox.Eventually(t, fmt.Sprintf("connections %s are established", s.way.Name), func() bool { return s.flows(now) })
	}
}

// LongestGap is the longest time of all streams from the damage to the first connection after the
// last that has failed; 0 if none has.
func LongestGap(streams []*Stream, damage time.Time) (longest time.Duration) {
	for _, s := range streams {
		longest = max(longest, s.gap(damage))
	}
	return longest
}
