// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"fmt"
	"testing"
	"time"
)

// way is a way in to the engine: an operation that is killed, and what then
// has to be enough for nothing to be left.
type way interface {
	// prepare makes what the operation works on, and returns the allocations
	// that it is about to set up.
	prepare() []string
	// start begins the operation.
	start() run
	// repair is one teardown, one gc or one start, and the end of what stands.
	repair()
}

// ids are the allocations of all ways.
var ids = []string{"k1", "k2", "k3"}

// ways are all ways in, by name and in this order.
var ways = []struct {
	name string
	of   func(h *host) way
}{
	{"attach, then detach", func(h *host) way { return &commandLine{h, nothing, attach, detach} }},
	{"attach, then gc", func(h *host) way { return &commandLine{h, nothing, attach, collect} }},
	{"attach one more, then detach", func(h *host) way { return &commandLine{h, stand, extend, detach} }},
	{"attach one more, then gc", func(h *host) way { return &commandLine{h, stand, extend, collect} }},
	{"detach, then detach", func(h *host) way { return &commandLine{h, stand, detach, detach} }},
	{"detach, then gc", func(h *host) way { return &commandLine{h, stand, detach, collect} }},
	{"gc, then gc", func(h *host) way { return &commandLine{h, die, collect, collect} }},
	{"ADD, then DEL", func(h *host) way { return &plugin{host: h, verb: "ADD"} }},
	{"DEL, then DEL", func(h *host) way { return &plugin{host: h, verb: "DEL"} }},
	{"GC, then GC", func(h *host) way { return &plugin{host: h, verb: "GC"} }},
	{"agent sets up", func(h *host) way { return &daemon{host: h, work: setUp} }},
	{"agent tears down", func(h *host) way { return &daemon{host: h, stands: true, work: tearDown} }},
	{"agent collects", func(h *host) way { return &daemon{host: h, stands: true, dead: true, work: collectDead} }},
	{"driver starts a task", func(h *host) way { return &driver{host: h} }},
	{"driver stops a task", func(h *host) way { return &driver{host: h, stands: true} }},
}

// TestKilled kills at a random instant of an operation, round after round, and
// requires that one teardown, gc or start leaves nothing. One round alone is
// replayed by its name and the seed:
//
//	ALLOCNET_CHAOS_SEED=... go test ./e2e/chaos -run 'TestKilled/round_7$'
func TestKilled(t *testing.T) {
	h := newHost(t)
	lengths := map[string]length{}
	killed := map[string]int{}
	for round := range rounds {
		w := ways[round%uint64(len(ways))]
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			h := h.on(t)
			if _, known := lengths[w.name]; !known {
				lengths[w.name] = h.measure(w.of(h))
			}
			l, i := lengths[w.name], someInstant(chance(round))
			cut, took := h.killOnce(w.of(h), i, l)
			if cut {
				killed[w.name]++
			} else { // the first one may have been slower than they are
				lengths[w.name] = length{min(l.time, took), l.changes}
			}
			if t.Failed() {
				t.Fatalf("seed %d, round %d: %s, killed (%v) %s", seed, round, w.name, cut, i.of(l))
			}
		})
	}
	total := 0
	for _, w := range ways {
		t.Logf("%s: killed %d times in %v, %d changes", w.name, killed[w.name], lengths[w.name].time, lengths[w.name].changes)
		total += killed[w.name]
	}
	if uint64(total) < rounds/2 {
		t.Errorf("only %d of %d operations were at work when they were killed", total, rounds)
	}
}

// measure lets a way's operation end.
func (h *host) measure(w way) length {
	h.Helper()
	changes := watchState(h, h.state, w.prepare())
	defer changes.Close()
	l := measure(changes, w.start)
	w.repair()
	h.requireSame()
	return l
}

// killOnce returns whether the operation was at work when it was killed, and how
// long it was.
func (h *host) killOnce(w way, i instant, l length) (cut bool, took time.Duration) {
	h.Helper()
	changes := watchState(h, h.state, w.prepare())
	defer changes.Close()
	began := time.Now()
	cut = i.kill(l, changes, w.start())
	took = time.Since(began)
	w.repair()
	h.requireSame()
	return cut, took
}
