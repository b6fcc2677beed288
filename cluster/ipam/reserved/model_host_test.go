// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// modelHost is what is on disk of a host.
type modelHost struct {
	number  int
	host    ipam.Host
	records map[netip.Addr]record
	memory  *memory
	leases  map[netip.Addr]ipam.Owner
	// locked is the process that uses the store.
	locked *process
	dead   bool
	// boots are those of the machine, the last one last.
	boots []string
	// registered is when the machine first used the store in this boot.
	registered time.Time
	// copyOf is the machine of whose disk this one's is a copy, which was booted, and copied the
	// other way round.
	copyOf, copied *modelHost
	// objected: the original has noticed the copy.
	objected bool
	// backup is what was on disk.
	backup map[netip.Addr]record
	// skew is by what the clock is wrong.
	skew time.Duration
}

// boot begins a boot of the machine.
func (m *model) boot(h *modelHost) {
	h.host.Boot, h.registered = fmt.Sprintf("%032x", m.random.Uint64()), time.Time{}
	h.boots = append(h.boots, h.host.Boot)
}

// process is a goroutine that runs only while the model waits for it.
type process struct {
	model *model
	host  *modelHost
	name  string
	// resume is sent whether the process goes on; false kills it.
	resume chan bool
	parked chan struct{}
	done   bool
	killed bool
	// faultless processes have no faults, and are not killed.
	faultless bool
	// patience is how often the process waits for something.
	patience int
	// ended is called by the model when the process is done or killed.
	ended func()
}

// step lets the process go on until its next pause.
func (p *process) step(goOn bool) {
	p.killed = p.killed || !goOn
	p.resume <- goOn
	<-p.parked
}

// yield is a pause, at which the process may be killed.
func (p *process) yield() {
	if p.killed {
		return // deferred functions of a killed process have no effect
	}
	p.parked <- struct{}{}
	if !<-p.resume {
		runtime.Goexit()
	}
}

func (p *process) run(do func(p *process)) {
	defer func() {
		p.done = true
		p.parked <- struct{}{}
	}()
	if !<-p.resume {
		return
	}
	do(p)
}

var errImpatient = errors.New("the deadline has passed")

// wait returns false when the process has waited often enough.
func (p *process) wait() bool {
	p.patience--
	p.yield()
	return p.patience > 0
}

// lockStore is flock(2): a killed process unlocks.
func (p *process) lockStore(context.Context) (func(), error) {
	for p.yield(); p.host.locked != nil; {
		if !p.wait() && !p.faultless {
			return nil, errImpatient
		}
	}
	p.host.locked = p
	return func() { p.host.locked = nil }, nil
}

// addresses returns what the process works with.
func (p *process) addresses() *Addresses {
	m := p.model
	a := New(Options{
		Config: m.config, Leases: modelLeases{p}, Guard: modelGuard{p}, Links: modelLinks{p}, Holder: modelHolder{p},
		Open:      func() (ipam.Store, ipam.Host, error) { return modelClient{p}, p.host.host, nil },
		LockStore: p.lockStore,
		Now:       func() time.Time { return m.time.Add(p.host.skew + time.Duration(p.host.number)*300*time.Millisecond) },
	})
	a.records = modelDisk{p}
	a.sleep = func(_ context.Context, d time.Duration) error {
		if !p.wait() {
			return errImpatient
		}
		m.pass(min(d, pollInterval)) // others go on
		return nil
	}
	return a
}

// modelDisk are the records of a host, as a process has them.
type modelDisk struct{ *process }

func (d modelDisk) load(context.Context) (map[netip.Addr]*record, error) {
	d.yield()
	all := map[netip.Addr]*record{}
	for address, r := range d.host.records {
		all[address] = &r
	}
	return all, nil
}

func (d modelDisk) replace(_ context.Context, address netip.Addr, old, changed *record) (bool, error) {
	d.yield()
	var present *record
	if r, ok := d.host.records[address]; ok {
		present = &r
	}
	if d.killed || !present.same(old) {
		return false, nil
	}
	if changed == nil {
		delete(d.host.records, address)
	} else {
		d.host.records[address] = *changed
	}
	d.yield()
	return true, nil
}

func (d modelDisk) remembered() (*memory, error) { return copyMemory(d.host.memory), nil }

func (d modelDisk) remember(m *memory) error {
	if !d.killed {
		d.host.memory = copyMemory(m)
	}
	return nil
}

func copyMemory(m *memory) *memory {
	if m == nil {
		return &memory{}
	}
	c := *m
	c.Entries, c.Gone, c.Unused = maps.Clone(m.Entries), maps.Clone(m.Gone), maps.Clone(m.Unused)
	return &c
}

// modelLeases are the leases of a host, as a process has them.
type modelLeases struct{ *process }

func (l modelLeases) Owner(_ context.Context, address netip.Addr) (ipam.Owner, bool, error) {
	owner, ok := l.host.leases[address]
	return owner, ok, nil
}

func (l modelLeases) Add(_ context.Context, address netip.Addr, owner ipam.Owner) error {
	l.yield()
	if present, ok := l.host.leases[address]; ok && present != owner {
		return fmt.Errorf("%s has the lease of %s", present.ContainerID, address)
	}
	l.host.leases[address] = owner
	l.yield()
	return nil
}

func (l modelLeases) Remove(_ context.Context, address netip.Addr, owner ipam.Owner) error {
	l.yield()
	if !l.killed && l.host.leases[address] == owner {
		delete(l.host.leases, address)
	}
	return nil
}

// modelLinks are the interfaces of a host, as a process has them.
type modelLinks struct{ *process }

func (l modelLinks) Published() (map[netip.Addr]string, error) {
	l.yield()
	found := map[netip.Addr]string{}
	for address, at := range l.model.living {
		if at.published && at.host == l.host {
			found[address] = "eth0"
		}
	}
	return found, nil
}

func (l modelLinks) Unpublish(address netip.Addr) error {
	l.yield()
	at := l.model.living[address]
	switch {
	case l.killed || !at.published || at.host != l.host:
	case l.model.flaw == staysPublished:
		at.until = l.model.time.Add(leaving)
		l.model.living[address] = at
	default:
		delete(l.model.living, address)
		l.model.counts.unpublished.Add(1)
	}
	l.yield()
	return nil
}

// modelHolder is Nomad, as a process has it.
type modelHolder struct{ *process }

var errNomad = errors.New("no answer from Nomad")

func (h modelHolder) Ended(_ context.Context, _, allocation string) (time.Time, error) {
	h.yield()
	if h.model.happens(h.model.faults.lose) {
		return time.Time{}, errNomad
	}
	return h.model.complete[allocation], nil
}

func (h modelHolder) Gone(_ context.Context, nodeID string) (bool, error) {
	h.yield()
	if h.model.happens(h.model.faults.lose) {
		return false, errNomad
	}
	return h.model.gone[nodeID], nil
}

// modelGuard is what package block does, as a process has it: a copy of a machine is refused once
// the original has seen it, within 40 s.
type modelGuard struct{ *process }

func (g modelGuard) Identify(context.Context, ipam.Store, ipam.Host) (isNew bool, err error) {
	g.yield()
	h := g.host
	if h.registered.IsZero() {
		h.registered = g.model.time
	}
	if c := h.copied; c != nil && !c.registered.IsZero() {
		h.objected = true
	}
	age := g.model.time.Sub(h.registered)
	if g.model.resumed.has(h) {
		return age < 40*time.Second, g.model.resumed.identify(g.model, h)
	}
	if o := h.copyOf; o != nil && !o.dead && (o.objected || age >= 40*time.Second) {
		o.objected = true
		return false, ipam.ErrTwin
	}
	return age < 40*time.Second && g.model.flaw != noWait, nil
}

func (g modelGuard) Wrote(ctx context.Context, store ipam.Store, self, by ipam.Host) (bool, error) {
	if _, err := g.Identify(ctx, store, self); err != nil {
		return false, err
	}
	return !g.host.objected || slices.Contains(g.host.boots, by.Boot) || g.model.flaw == copysIsOwn, nil
}

func (g modelGuard) Silent(_ context.Context, _ ipam.Store, _ ipam.Host, instance string) (bool, error) {
	g.yield()
	return g.model.flaw == nomadsWord || g.model.isDestroyed(ipam.Host{Instance: instance}), nil
}

func (g modelGuard) Answers(_ context.Context, _ ipam.Store, _ ipam.Host, instance string) (bool, error) {
	g.yield()
	return !g.model.isDestroyed(ipam.Host{Instance: instance}), nil
}

func (g modelGuard) Agree(context.Context, ipam.Store) error { return nil }
