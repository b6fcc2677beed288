// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/isolation"
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

// ways are the operations of all integrations, by name and in this order: first those of the command line.
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

// ofCommandLine is how many ways are those of the command line.
const ofCommandLine = 7

// TestKilledCommand and TestKilledCall kill at a random instant of an operation, round after round, and
// require that one teardown, gc or start leaves nothing. In every other round, and with the
// other seed in the others, networks are isolated. The instants are those of
// a fixed seed, which every run has, and of a random one, which is printed. One
// round alone is replayed by its name:
//
//	ALLOCNET_CHAOS_SEED=42 go test ./e2e/chaos -run 'TestKilled.*/seed_42/round_7$'
//
// They are two tests because they take longest, and one can run beside the other.
func TestKilledCommand(t *testing.T) {
	kill(t, func(way int) bool { return way < ofCommandLine })
}

// TestKilledCall kills plugin, agent and driver in the rounds that TestKilledCommand leaves out.
func TestKilledCall(t *testing.T) { kill(t, func(way int) bool { return way >= ofCommandLine }) }

// kill kills in the rounds of the chosen ways.
func kill(t *testing.T, chosen func(way int) bool) {
	t.Helper()
	k := &killings{host: newHost(t), lengths: map[string]length{}}
	for i, seed := range []uint64{fixedSeed, seed} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for round := range kills {
				if !chosen(int(round % uint64(len(ways)))) {
					continue
				}
				t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
					k.round(t, seed, round, (round+uint64(i))%2 == 0)
				})
			}
		})
	}
	for name, l := range k.lengths {
		t.Logf("%s: %v, %d changes", name, l.time, l.changes)
	}
}

// killings are the rounds on a host, and the lengths of operations, by name.
type killings struct {
	host    *host
	lengths map[string]length
}

// round measures an operation that no round before has, and kills it.
func (k *killings) round(t *testing.T, seed, round uint64, isolated bool) {
	t.Helper()
	h, w := k.host.on(t), ways[round%uint64(len(ways))]
	isolated = isolated && h.isolate()
	l, measured := k.lengths[w.name]
	switch {
	case !measured:
		l = h.measure(w.of(h))
	case isolated: // it does more
		l.time += l.time / 3
	}
	l = h.killAt(someInstant(chance(seed, round)), l, w.of)
	if !measured || !isolated {
		k.lengths[w.name] = l
	}
	if t.Failed() {
		t.Fatalf("seed %d, round %d: %s, isolated: %t", seed, round, w.name, isolated)
	}
}

// levels are those of networks that are isolated, and isolationRules what the host has beside those.
var levels = map[string]isolation.Level{"10-web.conflist": isolation.Strict, "30-peer.conf": isolation.Network}

const isolationRules = `egress "storage" {
  from { network = "storage" }
  to { cidrs = ["10.0.0.0/8", "fd00::/8"] }
}
`

// isolate has networks isolated until the test ends; those that plugins attach cannot be.
func (h *host) isolate() bool {
	h.Helper()
	if sandbox.Executor() == "plugins" {
		return false
	}
	if err := os.MkdirAll(filepath.Dir(isolation.DefaultFile), 0o755); err != nil {
		h.Fatal(err)
	}
	sandbox.WriteFile(h, isolation.DefaultFile, isolationRules)
	h.Cleanup(func() { _ = os.Remove(isolation.DefaultFile) })
	for name, level := range levels {
		path := filepath.Join(h.conf, name)
		plain, err := os.ReadFile(path)
		if err != nil {
			h.Fatal(err)
		}
		sandbox.WriteFile(h, path, strings.Replace(string(plain), "{", fmt.Sprintf(`{"allocnet": {"isolation": %q}, `, level), 1))
		h.Cleanup(func() { sandbox.WriteFile(h, path, string(plain)) })
	}
	return true
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
