// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

const (
	// step is the time between two connections of a stream, and lost is when one that is not
	// established has failed: before TCP sends its first packet once more, so what repairs the way
	// later is seen by later ones alone.
	step = 40 * time.Millisecond
	lost = 500 * time.Millisecond
)

// stream makes a new connection at each step.
type stream struct {
	way
	ns *netns.Namespace

	mu       sync.Mutex // guards attempts
	attempts []attempt
}

// attempt is one connection of a stream.
type attempt struct {
	began           time.Time
	ended, answered bool
}

// stream starts a stream, which ends with the test.
func (h *host) stream(w way, step time.Duration) *stream {
	h.Helper()
	ns, err := netns.Open(w.from)
	if err != nil {
		h.Fatal(err)
	}
	s := &stream{way: w, ns: ns}
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
	h.Cleanup(func() {
		ticker.Stop()
		close(done)
		group.Wait()
		_ = ns.Close()
	})
	return s
}

func (s *stream) connect(i int) {
	err := s.ns.Do(func() error {
		conn, err := net.DialTimeout("tcp", s.to, lost)
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
func (s *stream) flows(after time.Time) bool {
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
func (s *stream) gap(damage time.Time) (gap time.Duration) {
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

// awaitFlow waits until connections of each stream are established that begin from now on.
func (h *host) awaitFlow(streams []*stream) {
	h.Helper()
	now := time.Now()
	for _, s := range streams {
		sandbox.Eventually(h, fmt.Sprintf("connections %s are established", s.name), func() bool { return s.flows(now) })
	}
}

// longestGap is that of all streams.
func longestGap(streams []*stream, damage time.Time) (longest time.Duration) {
	for _, s := range streams {
		longest = max(longest, s.gap(damage))
	}
	return longest
}
