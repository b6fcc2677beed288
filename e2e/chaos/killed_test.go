// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"fmt"
	"testing"
	"time"
)

// way is an operation of one integration, which the test kills, and the repair after which
// the host has no leftovers.
type way interface {
	// prepare makes the objects that the operation needs, and returns the allocations
	// that it is about to set up.
	prepare() []string
	// start begins the operation.
	start() run
	// repair is one teardown, one gc or one start, and the end of existing attachments.
	repair()
}

// ids are the allocations of all ways.
var ids = []string{"k1", "k2", "k3"}

// ways are the operations of all integrations, by name and in this order.
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
// requires that one teardown, gc or start leaves nothing. The instants are those of
// a fixed seed, which every run has, and of a random one, which is printed. One
// round alone is replayed by its name:
//
//	ALLOCNET_CHAOS_SEED=42 go test ./e2e/chaos -run 'TestKilled/seed_42/round_7$'
func TestKilled(t *testing.T) {
	h := newHost(t)
	lengths := map[string]length{}
	for _, seed := range []uint64{fixedSeed, seed} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for round := range kills {
				w := ways[round%uint64(len(ways))]
				t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
					h := h.on(t)
					if _, known := lengths[w.name]; !known {
						lengths[w.name] = h.measure(w.of(h))
					}
					lengths[w.name] = h.killAt(someInstant(chance(seed, round)), lengths[w.name], w.of)
					if t.Failed() {
						t.Fatalf("seed %d, round %d: %s", seed, round, w.name)
					}
				})
			}
		})
	}
	for _, w := range ways {
		t.Logf("%s: %v, %d changes", w.name, lengths[w.name].time, lengths[w.name].changes)
	}
}

// killAt kills an operation at an instant. If the operation ends before, it is repeated and
// killed at half the time, and so on: every round kills. It returns the length of the
// operation, which may be shorter than the measured one.
func (h *host) killAt(i instant, l length, of func(*host) way) length {
	h.Helper()
	for {
		cut, took := h.killOnce(of(h), i, l)
		if cut || h.Failed() {
			h.Logf("killed %s", i.of(l))
			return l
		}
		l.time = min(l.time, took)
		i = instant{part: i.part / 2}
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

// killOnce returns whether the operation was in flight when it was killed, and how
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
