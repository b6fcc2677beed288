// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// schedules is how many there are in a run unless the environment says so.
const schedules = 10_000

// TestModel runs random schedules of processes on several hosts, with a store that loses,
// doubles and delays requests, answers with old states, refuses and is restored from
// snapshots, and with processes that are killed at any step. No address may ever be in two
// living namespaces, or published on two hosts, no job gets what is kept for another, or more than it may have, a key keeps
// its address and has no second one, and when everything is given back and unreserved, nothing
// remains.
func TestModel(t *testing.T) {
	first, count := storetest.Schedules(t, schedules)
	var next atomic.Uint64
	var group sync.WaitGroup
	var counts tally
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < count && !t.Failed(); i = next.Add(1) - 1 {
				runSchedule(t, first+i, &counts)
			}
		})
	}
	group.Wait()
	t.Log(&counts)
	if err := counts.missing(int(count)); err != nil && !t.Failed() {
		t.Error(err)
	}
}

// runSchedule repeats a schedule that fails, to tell what happened.
func runSchedule(t *testing.T, seed uint64, counts *tally) {
	m := newModel(t, seed, counts)
	if m.run(); m.fault == "" {
		return
	}
	again := newModel(t, seed, &tally{})
	again.tracing = true
	again.run()
	t.Errorf("ALLOCNET_MODEL_SCHEDULES=1 ALLOCNET_MODEL_SEED=%d: %s\n%s", seed, m.fault, strings.Join(again.lines, "\n"))
}

// tally counts what happened in all schedules: a model in which nothing happens finds nothing.
type tally struct {
	added, moved, waited, refused, killed, late, restored, rollbacks, freedUnknown, reclaimed, evicted, atLimit, copies, resumed, recovered, jumps, unpublished atomic.Int64
}

func (t *tally) counters() map[string]*atomic.Int64 {
	return map[string]*atomic.Int64{
		"added": &t.added, "moved to another host": &t.moved, "waited in vain": &t.waited, "refused": &t.refused, "killed": &t.killed,
		"late requests": &t.late, "restored": &t.restored, "rollbacks": &t.rollbacks, "held without knowing": &t.freedUnknown,
		"reclaimed": &t.reclaimed, "evicted": &t.evicted, "at the limit": &t.atLimit,
		"copied": &t.copies, "resumed twice": &t.resumed, "restored from a backup": &t.recovered, "jumped": &t.jumps, "unpublished": &t.unpublished,
	}
}

func (t *tally) String() string {
	var text []string
	counters := t.counters()
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		text = append(text, fmt.Sprintf("%s: %d", name, counters[name].Load()))
	}
	return strings.Join(text, ", ")
}

func (t *tally) missing(schedules int) error {
	if schedules < 1000 {
		return nil
	}
	for name, counter := range t.counters() {
		if counter.Load() == 0 {
			return errors.New("never " + name)
		}
	}
	return nil
}

// container is what the model's Nomad runs.
type container struct {
	request ipam.Request
	host    *modelHost
	// busy: a process works for it.
	busy bool
	// deleted: it needs no DEL any more.
	deleted bool
}

// residence is a namespace that has an address.
type residence struct {
	host  *modelHost
	owner ipam.Owner
	// job is for whom it was taken. Key is empty if the address was requested.
	job ipam.Job
	// until is set when it is leaving.
	until time.Time
	// published is whether it is no namespace but the host, and dead whether what it was published for has ended.
	published, dead bool
}

// faults are the probabilities of a schedule.
type faults struct{ lose, late, double, refuse, stale, kill float64 }

// model is one schedule.
type model struct {
	t       *testing.T
	random  *rand.Rand
	counts  *tally
	config  *ipam.Config
	store   *modelStore
	faults  faults
	time    time.Time
	hosts   []*modelHost
	running []*process
	current *process

	containers []*container
	living     map[netip.Addr]residence
	complete   map[string]time.Time
	gone       map[string]bool
	// last is where an address was before.
	last map[netip.Addr]*modelHost
	// rolledBack: the store was restored. lostState: a host has lost its state directory. If
	// both happen, nothing knows what is missing.
	rolledBack, lostState bool
	// operated: an operator has changed for whom an address is.
	operated bool
	// copied: the disk of a host was copied. jumped: a clock was.
	copied, jumped bool
	// resumed are set when a machine was resumed twice.
	resumed *resumed
	// flaw is what is done wrong.
	flaw string
	// stale: reads have old answers. It stays when the faults end, as their effects do.
	stale bool
	// arrived is how many late requests have had an effect.
	arrived int

	fault   string
	tracing bool
	lines   []string
}

var modelConfigs = []string{
	`{"type": "allocnet-ipam", "pool": "test", "ranges": [{"subnet": "10.0.0.0/24"}], "reserved": ["10.0.0.16/30"], "cooldown": "20s"}`,
	`{"type": "allocnet-ipam", "pool": "test", "ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/112"}], "reserved": ["10.0.0.16/30", "fd00::10/126"], "cooldown": "10s"}`,
	`{"type": "allocnet-ipam", "pool": "test", "ranges": [{"subnet": "10.0.0.0/24"}], "reserved": ["10.0.0.16/29"], "cooldown": "10s", "maxReservedPerJob": 2}`,
}

func newModel(t *testing.T, seed uint64, counts *tally) *model {
	m := &model{
		t: t, random: rand.New(rand.NewPCG(seed, 0)), counts: counts, store: &modelStore{version: &version{entries: map[string]ipam.Entry{}}},
		time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), living: map[netip.Addr]residence{},
		complete: map[string]time.Time{}, gone: map[string]bool{}, last: map[netip.Addr]*modelHost{},
	}
	config, err := ipam.Parse([]byte(modelConfigs[m.random.IntN(len(modelConfigs))]))
	if err != nil {
		t.Fatal(err)
	}
	m.config = config
	pick := func(values ...float64) float64 { return values[m.random.IntN(len(values))] }
	m.faults = faults{
		lose: pick(0, 0.02, 0.1), late: pick(0, 0.02, 0.2), double: pick(0, 0.1),
		refuse: pick(0, 0, 0.05), stale: pick(0, 0, 0, 0.1), kill: pick(0, 0.01, 0.05),
	}
	m.stale = m.faults.stale > 0
	for i := range 2 + m.random.IntN(2) {
		h := &modelHost{
			number: i, records: map[netip.Addr]record{}, leases: map[netip.Addr]ipam.Owner{},
			host: ipam.Host{Instance: fmt.Sprintf("%032x", i), NodeID: fmt.Sprint("node", i), MachineID: fmt.Sprint("machine", i)},
		}
		m.boot(h)
		m.hosts = append(m.hosts, h)
	}
	return m
}

func (m *model) trace(format string, args ...any) {
	if m.tracing {
		m.lines = append(m.lines, m.time.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

func (m *model) fail(format string, args ...any) {
	if m.fault == "" {
		m.fault = fmt.Sprintf(format, args...)
	}
	m.trace("FAULT "+format, args...)
}

// happens returns true with a probability, for processes that have faults.
func (m *model) happens(probability float64) bool {
	return probability > 0 && !m.current.faultless && m.random.Float64() < probability
}

func oneOf[T any](m *model, values []T) T { return values[m.random.IntN(len(values))] }

// start begins a process. The model goes on first.
func (m *model) start(h *modelHost, name string, do func(p *process), ended func()) *process {
	p := &process{
		model: m, host: h, name: fmt.Sprintf("%s on %d", name, h.number), resume: make(chan bool), parked: make(chan struct{}),
		patience: 2 + m.random.IntN(12), ended: ended,
	}
	m.trace("%s starts", p.name)
	m.running = append(m.running, p)
	go p.run(do)
	return p
}

// step lets one process go on, or kills it.
func (m *model) step(p *process, goOn bool) {
	if !goOn {
		m.trace("%s is killed", p.name)
		m.counts.killed.Add(1)
	}
	m.current = p
	if p.step(goOn); !p.done {
		return
	}
	if p.host.locked == p {
		p.host.locked = nil // the kernel unlocks what a killed process has locked
	}
	m.running = slices.DeleteFunc(m.running, func(other *process) bool { return other == p })
	if p.ended != nil {
		p.ended()
	}
}

func (m *model) run() {
	for range 50 + m.random.IntN(250) {
		if m.advance(); m.fault != "" {
			break
		}
	}
	m.faults = faults{}
	m.finishAll()
	if m.fault == "" {
		m.settle()
	}
	for len(m.running) > 0 { // of a failed schedule
		m.step(m.running[0], false)
	}
}

// advance does one random thing.
func (m *model) advance() {
	switch n := m.random.IntN(1000); {
	case n < 20 && len(m.store.late) > 0:
		m.arrive(m.random.IntN(len(m.store.late)))
	case n < 60:
		m.pass(time.Duration(m.random.IntN(3000)) * time.Millisecond)
	case n < 66 && !m.rolledBack:
		m.pass(time.Duration(m.random.IntN(60)) * time.Second)
	case n < 70 && m.faults.kill > 0:
		m.disaster()
	case n < 71:
		m.copyDisk()
	case n < 72:
		m.resumeTwice()
	case n < 75:
		m.backUp()
	case n < 76:
		m.jump()
	case (n < 140 || len(m.running) == 0) && len(m.running) < 5:
		m.event()
	default:
		if len(m.running) == 0 {
			return
		}
		p := oneOf(m, m.running)
		m.step(p, p.faultless || m.random.Float64() >= m.faults.kill)
	}
}

// arrive lets a late request arrive.
func (m *model) arrive(i int) {
	late := m.store.late[i]
	m.store.late = slices.Delete(m.store.late, i, i+1)
	m.counts.late.Add(1)
	late()
}

// finishAll lets all processes end.
func (m *model) finishAll() {
	for _, p := range m.running {
		p.patience = min(p.patience, 3)
	}
	m.drain(m.running)
}

// drain runs some processes to their ends without faults, and others meanwhile.
func (m *model) drain(some []*process) {
	some = slices.Clone(some)
	for _, p := range some {
		p.faultless = true
	}
	for len(some) > 0 {
		m.step(oneOf(m, m.running), true)
		some = slices.DeleteFunc(some, func(p *process) bool { return p.done })
	}
}

func (m *model) alive() []*modelHost {
	return slices.DeleteFunc(slices.Clone(m.hosts), func(h *modelHost) bool { return h.dead })
}

// apply makes a write, and checks that it takes nothing from others.
func (m *model) apply(by *modelHost, c change) (uint64, error) {
	before, existed := m.store.entries[c.path]
	index, err := m.store.apply(c)
	if err == nil {
		m.resumed.wrote(by, c.path)
	}
	if err != nil || !existed || c.remove || m.rolledBack {
		return index, err
	}
	old, oldErr := ipam.DecodeAddress(before.Content, m.config)
	content, newErr := ipam.DecodeAddress(c.content, m.config)
	if err := cmp.Or(oldErr, newErr); err != nil {
		m.fail("an entry cannot be read: %v", err)
		return index, nil
	}
	if content.State == ipam.Held {
		m.checkTaken(by, old, content)
	}
	return index, nil
}

func (m *model) checkTaken(by *modelHost, old, content ipam.AddressContent) {
	at, used := m.living[old.Address]
	switch {
	case m.resumed.mayDouble(old.Address):
	case at.dead && at.host == by: // it stays published
	case old.State == ipam.Held && used && at.until.IsZero() && at.owner == old.Owner && content.Owner != old.Owner:
		m.fail("host %d takes %s from the living %s", by.number, old.Address, old.Owner.ContainerID)
	case !isKept(old) || sameJob(old.Job, content.Job), m.jumped:
	case old.Reserved:
		m.fail("%s is reserved for job %s, and job %s takes it", old.Address, old.Job.Job, content.Job.Job)
	case old.State == ipam.Free && m.time.Sub(old.Freed) < m.config.Cooldown-2*time.Second || old.State == ipam.Held:
		m.fail("%s is kept for job %s, and job %s takes it", old.Address, old.Job.Job, content.Job.Job)
	default:
		m.counts.evicted.Add(1)
	}
}

func (m *model) background(h *modelHost, name string, do func(ctx context.Context, a *Addresses) error) *process {
	return m.start(h, name, func(p *process) {
		if err := do(context.Background(), p.addresses()); err != nil {
			m.trace("%s: %v", p.name, err)
		}
	}, nil)
}
