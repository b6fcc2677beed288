// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/wake"
)

const (
	// window is what the charts show.
	window = 15 * time.Minute
	// step is the time between two samples.
	step = 10 * time.Second
	// keptEvents is about what the agent keeps.
	keptEvents = 6000
	// reconnect is the pause before the events of an agent that ended are followed again.
	reconnect = 3 * time.Second
)

type sample struct {
	time        time.Time
	attachments int
}

// feed follows the agent for all pages: an agent has a limit of those who follow.
type feed struct {
	agent Agent

	mu      sync.Mutex
	events  []api.Event // the oldest first
	samples []sample    // the oldest first
	// allocations and problems are those of the newest sample.
	allocations, problems int
	// version grows with each change, and changed is closed at the next one.
	version uint64
	changed chan struct{}
}

func newFeed(a Agent) *feed { return &feed{agent: a, changed: make(chan struct{})} }

// run follows until ctx ends.
func (f *feed) run(ctx context.Context) {
	go f.measure(ctx)
	for ctx.Err() == nil {
		for e, err := range f.agent.Events(ctx, api.EventQuery{Follow: true, After: f.last()}) {
			if err != nil {
				break // the samples show it
			}
			f.add(e)
		}
		wake.After(ctx, reconnect)
	}
}

func (f *feed) measure(ctx context.Context) {
	for ctx.Err() == nil {
		limited, stop := context.WithTimeout(ctx, agentTimeout)
		h, err := look(limited, f.agent)
		stop()
		f.sample(h, err, time.Now())
		wake.After(ctx, step)
	}
}

func (f *feed) last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events) == 0 {
		return 0
	}
	return f.events[len(f.events)-1].Index
}

func (f *feed) add(e api.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
	if excess := len(f.events) - keptEvents; excess > 0 {
		f.events = f.events[excess:]
	}
	f.change()
}

// sample keeps what was counted, unless the agent did not answer; either way the pages have
// another time.
func (f *feed) sample(h *host, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		s := sample{time: now}
		for _, a := range h.Allocations.Value {
			s.attachments += len(a.Attachments)
		}
		f.samples = append(f.samples, s)
		f.allocations, f.problems = len(h.Allocations.Value), len(h.problems())
	}
	for len(f.samples) > 0 && now.Sub(f.samples[0].time) > window {
		f.samples = f.samples[1:]
	}
	f.change()
}

// change wakes those who wait. The caller has the lock.
func (f *feed) change() {
	f.version++
	close(f.changed)
	f.changed = make(chan struct{})
}

// next returns the version, and a channel that is closed when there is another one.
func (f *feed) next() (version uint64, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version, f.changed
}

// newest returns the events that are selected, the newest first, n at most.
func (f *feed) newest(n int, selected func(api.Event) bool) []api.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []api.Event
	for i := len(f.events) - 1; i >= 0 && len(found) < n; i-- {
		if selected(f.events[i]) {
			found = append(found, f.events[i])
		}
	}
	return found
}

// counts returns how many allocations and problems there were at the newest sample.
func (f *feed) counts() (allocations, problems int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.allocations, f.problems
}

// history returns the samples, and the events of the window before now, the newest first.
func (f *feed) history(now time.Time) ([]sample, []api.Event) {
	recent := f.newest(keptEvents, func(e api.Event) bool { return now.Sub(e.Time) < window })
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.samples) == 0 {
		return nil, recent
	}
	return append(before(f.samples[0], recent), f.samples...), recent
}

// before returns what was attached before the first sample, of the events of that time: the page was not open then.
func before(first sample, newest []api.Event) (samples []sample) {
	for _, e := range newest {
		if e.Time.After(first.time) || e.Outcome != "done" {
			continue
		}
		switch e.Operation {
		case "attach":
			samples = append(samples, sample{e.Time, first.attachments})
			first.attachments--
		case "detach":
			samples = append(samples, sample{e.Time, first.attachments})
			first.attachments++
		}
	}
	slices.Reverse(samples)
	return samples
}

const (
	// gather is the least time between two messages of a stream.
	gather = time.Second
	// keepAlive is the most.
	keepAlive = 15 * time.Second
)

// live streams the version of what the pages show, so that a page loads itself when it is
// another one than its own. A stream ends with the session, and keeps it from being idle.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	connection := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	for s.sessions.use(r, s.now()) {
		version, changed := s.feed.next()
		if _, err := fmt.Fprintf(w, "data: %d\n\n", version); err != nil || connection.Flush() != nil {
			return
		}
		wake.After(r.Context(), gather)
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-time.After(keepAlive):
		}
	}
}
