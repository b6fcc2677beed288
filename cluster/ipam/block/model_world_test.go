// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// world is one random schedule: hosts with processes that use one store. One process runs at a
// time, until its next step; the schedule decides which, and which is killed.
type world struct {
	rnd   *rand.Rand
	now   time.Duration
	store *fakeStore
	hosts []*fakeHost
	// processes are those that have not ended.
	processes []*process
	// threads are those without a process.
	threads  []*thread
	current  *process
	config   *ipam.Config
	features features
	// flaw is what a bug makes of a file that is read. Nil: there is none.
	flaw func(h *fakeHost, name string, data []byte) []byte
	// purged are the IDs of nodes that Nomad does not know, though they may live.
	purged map[string]bool
	counts map[string]int
	// failure is the first invariant that did not hold.
	failure string
	trace   []string
	tracing bool
	ids     uint64
}

// process is one of a host.
type process struct {
	host   *fakeHost
	name   string
	run    func()
	thread *thread
	yield  func(struct{}) bool
	ended  bool
	// waiting is the lock that the process needs to go on.
	waiting *fakeLock
	killed  bool
}

// killed unwinds the stack of a process that was killed.
type killed struct{}

// thread runs processes, one after another: a new one would have to grow its stack again.
type thread struct {
	process *process
	resume  func() (struct{}, bool)
	stop    func()
}

func newThread() *thread {
	t := &thread{}
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		for t.process != nil {
			t.process.yield = yield
			t.process.runKillable()
			t.process = nil
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return t
}

// runKillable runs the process until it ends or is killed.
func (p *process) runKillable() {
	defer func() {
		if e := recover(); e != nil {
			if _, ok := e.(killed); !ok {
				panic(fmt.Sprintf("%v\n%s", e, debug.Stack()))
			}
		}
		p.ended = true
	}()
	p.step()
	p.run()
}

// start adds a process.
func (w *world) start(h *fakeHost, name string, run func()) {
	if len(w.threads) == 0 {
		w.threads = append(w.threads, newThread())
	}
	p := &process{host: h, name: name, run: run, thread: w.threads[len(w.threads)-1]}
	w.threads = w.threads[:len(w.threads)-1]
	p.thread.process = p
	w.processes = append(w.processes, p)
}

// step lets other processes run. The process may be killed here.
func (p *process) step() {
	if !p.killed {
		p.yield(struct{}{})
	}
	if p.killed {
		panic(killed{})
	}
}

// wait is until the lock is free.
func (p *process) acquire(l *fakeLock) func() {
	p.step()
	for l.owner != nil {
		p.waiting = l
		p.step()
	}
	p.waiting, l.owner = nil, p
	return func() {
		if l.owner == p {
			l.owner = nil
		}
	}
}

type fakeLock struct{ owner *process }

// runnable are the processes that do not wait for a lock.
func (w *world) runnable() []*process {
	var all []*process
	for _, p := range w.processes {
		if p.waiting == nil || p.waiting.owner == nil {
			all = append(all, p)
		}
	}
	return all
}

// resumeOne lets a random process do a step.
func (w *world) resumeOne() bool {
	all := w.runnable()
	if len(all) == 0 {
		return false
	}
	p := all[w.rnd.IntN(len(all))]
	w.now += time.Duration(w.rnd.IntN(10)) * time.Millisecond
	w.run(p)
	return true
}

// run lets a process do a step.
func (w *world) run(p *process) {
	w.current = p
	_, _ = p.thread.resume()
	if w.current = nil; p.ended {
		w.threads = append(w.threads, p.thread)
		w.remove(p)
	}
}

func (w *world) remove(p *process) {
	for i, other := range w.processes {
		if other == p {
			w.processes = append(w.processes[:i], w.processes[i+1:]...)
			return
		}
	}
}

// kill ends a process where it is. With one of the agent, what the agent knows ends.
func (w *world) kill(p *process) {
	w.logf("kill %s of %s", p.name, p.host)
	p.killed = true
	w.run(p)
	if !slices.Contains([]string{"ADD", "DEL", "collect"}, p.name) {
		p.host.agent = p.host.open()
	}
}

// drain runs all processes to their end, and now and then kills one.
func (w *world) drain() {
	for w.failure == "" && w.resumeOne() {
		if w.features.kills && len(w.processes) > 0 && w.rnd.IntN(200) == 0 {
			w.kill(w.processes[w.rnd.IntN(len(w.processes))])
		}
		w.deliver(100)
	}
}

// deliver lets a request that is under way arrive, or get lost, once in n calls.
func (w *world) deliver(n int) {
	if len(w.store.pending) == 0 || w.rnd.IntN(n) != 0 {
		return
	}
	r := w.store.pending[w.rnd.IntN(len(w.store.pending))]
	if r.due > w.now {
		return
	}
	if w.rnd.IntN(4) == 0 {
		w.store.discard(r)
	} else {
		w.store.finish(r)
	}
}

func (w *world) logf(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf("%9s ", w.now)+fmt.Sprintf(format, args...))
	}
}

func (w *world) fail(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
		w.logf("FAILURE: %s", w.failure)
	}
}

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.rnd.IntN(n) == 0 }

// id returns 32 hexadecimal digits that the seed decides.
func (w *world) id() string {
	w.ids++
	return fmt.Sprintf("%032x", w.ids)
}

func (w *world) String() string { return strings.Join(w.trace, "\n") }
