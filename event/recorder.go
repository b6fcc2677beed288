// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package event

import (
	"cmp"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// Recorder is an observer of an engine that keeps what it observes. It may be used
// concurrently, and by several processes.
type Recorder struct {
	caller string
	log    hclog.Logger
	ring   *ring

	mu sync.Mutex // guards all below
	// failed is when an append failed last.
	failed time.Time
}

var _ hook.Observer = (*Recorder)(nil)

// NewRecorder returns a recorder for a caller in a state directory. Empty:
// state.DefaultDir. It logs what cannot be kept.
func NewRecorder(stateDir, caller string, log hclog.Logger) *Recorder {
	return &Recorder{caller: caller, log: log, ring: newRing(cmp.Or(stateDir, state.DefaultDir))}
}

// retryAfter is how long nothing is kept after a failure: each attempt could wait for the
// lock.
const retryAfter = 10 * time.Second

// Observe keeps an observation as an event. It never fails its caller.
func (r *Recorder) Observe(o hook.Observation) { r.keep(of(o, r.caller)) }

// Pool keeps that a problem of a pool has begun, or has ended. It never fails its caller.
func (r *Recorder) Pool(name, kind, problem string, ended bool) {
	e := Event{Time: time.Now().UTC(), Operation: OpPool, Outcome: string(hook.Failed), Reason: kind, Caller: r.caller, Pool: name, Error: plain(problem)}
	if ended {
		e.Outcome, e.Error = string(hook.Done), ""
	}
	r.keep(e)
}

func (r *Recorder) keep(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failed.IsZero() && time.Since(r.failed) < retryAfter {
		return
	}
	r.failed = time.Time{}
	if err := r.ring.append(e); err != nil {
		r.failed = time.Now()
		r.log.Warn("events are not recorded for "+retryAfter.String(), "error", err)
	}
}
