// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// event begins something that happens in a cluster.
func (m *model) event() {
	hosts := m.alive()
	if len(hosts) == 0 {
		return
	}
	h := oneOf(m, hosts)
	switch n := m.random.IntN(100); {
	case n < 40:
		m.add(h)
	case n < 45:
		m.addTwins()
	case n < 70:
		m.del()
	case n < 75:
		m.die()
	case n < 80:
		m.collect(h)
	case n < 86:
		m.background(h, "finish", func(ctx context.Context, a *Addresses) error { return a.Finish(ctx) })
	case n < 92:
		m.verify(h)
	case n < 94:
		m.reclaim(h)
	case n < 96:
		m.adopt(h)
	case n < 97:
		m.operate(h)
	case n < 98:
		m.forget(h)
	case !m.rolledBack && !m.lostState && !m.copied && !m.jumped && m.faults.stale == 0:
		m.rollBack()
	}
}

// addTwins sets up containers of one key on all hosts, as of a system job.
func (m *model) addTwins() {
	request := m.request()
	request.Addresses = nil
	for i, h := range m.alive() {
		c := &container{request: request, host: h}
		c.request.Job.Allocation = fmt.Sprint(request.Job.Allocation, "-", i)
		c.request.Owner.ContainerID = c.request.Job.Allocation
		m.setUp(c)
	}
}

// forget lets Nomad not know a living node, maybe for longer than the grace, or know it again.
func (m *model) forget(h *modelHost) {
	m.gone[h.host.NodeID] = !m.gone[h.host.NodeID]
	m.trace("Nomad has forgotten node %d: %v", h.number, m.gone[h.host.NodeID])
	if m.lostState || m.random.IntN(2) == 0 { // what an instance of before held counts as another host's
		return
	}
	for range 2 {
		for _, other := range m.alive() {
			m.drain([]*process{m.reclaim(other)})
		}
		m.pass(61 * time.Minute)
	}
}

// add sets up a container: a new one, or again one of this host that has not ended.
func (m *model) add(h *modelHost) {
	c := &container{request: m.request(), host: h}
	again := slices.DeleteFunc(m.idle(), func(c *container) bool { return c.host != h || !m.complete[c.request.Job.Allocation].IsZero() })
	if len(again) > 0 && m.random.IntN(5) == 0 {
		c = oneOf(m, again)
		m.vacate(c)
	}
	m.setUp(c)
}

func (m *model) setUp(c *container) {
	if !slices.Contains(m.containers, c) {
		m.containers = append(m.containers, c)
	}
	h := c.host
	c.busy = true
	families := m.config.Families()
	var found []netip.Addr
	var err error
	name := fmt.Sprintf("ADD %s %v %s/%s", c.request.Owner.ContainerID, c.request.Addresses, c.request.Job.Job, c.request.Job.Key)
	m.start(h, name, func(p *process) {
		found, err = p.addresses().Take(context.Background(), c.request, families)
	}, func() {
		c.busy = false
		m.trace("%s on %d: %v %v", name, h.number, found, err)
		m.count(err)
		if err == nil && found != nil {
			m.occupy(c, found)
		}
	})
}

func (m *model) count(err error) {
	var refused *RefusedError
	var busy *BusyError
	switch {
	case errors.As(err, &refused):
		m.counts.refused.Add(1)
	case errors.As(err, &busy):
		m.counts.waited.Add(1)
	}
}

func (m *model) request() ipam.Request {
	id := fmt.Sprint("c", len(m.containers))
	r := ipam.Request{Owner: attachment(id), Job: ipam.Job{Namespace: "default", Job: oneOf(m, []string{"web", "db"}), Group: "g", Allocation: id}}
	r.Job.Key = oneOf(m, []string{"0", "1", "2"})
	if m.random.IntN(3) == 0 {
		for _, f := range m.config.Families() {
			r.Addresses = append(r.Addresses, m.address(f))
		}
		r.Published = m.random.IntN(2) == 0
	}
	return r
}

func (m *model) address(f ipam.Family) netip.Addr {
	all := slices.Collect(m.config.ReservedOf(f))
	return all[m.random.IntN(len(all))]
}

// occupy gives addresses to a namespace.
func (m *model) occupy(c *container, found []netip.Addr) {
	m.counts.added.Add(1)
	job := c.request.Job
	if len(c.request.Addresses) > 0 {
		job.Key = ""
	}
	for _, address := range found {
		if at, used := m.living[address]; used && !m.resumed.mayDouble(address) && (!at.dead || at.host != c.host) && (at.until.IsZero() || at.host != c.host && !m.jumped) {
			m.fail("%s is in two living namespaces: %s on host %d, and %s on host %d", address, at.owner.ContainerID, at.host.number, c.request.Owner.ContainerID, c.host.number)
		}
		m.living[address] = residence{host: c.host, owner: c.request.Owner, job: job, published: c.request.Published}
		if last := m.last[address]; last != nil && last != c.host {
			m.counts.moved.Add(1)
		}
		m.last[address] = c.host
	}
	m.checkLimit(c.request.Job)
	if len(c.request.Addresses) > 0 {
		return
	}
	for _, address := range found {
		m.checkSticky(c.request.Job, address)
		m.checkAlone(c, address)
	}
}

// checkAlone requires that no other living namespace has an address for the same key. Of a machine
// that goes on twice, one may have given away what the other one has and answers from its record.
func (m *model) checkAlone(c *container, address netip.Addr) {
	if m.rolledBack || m.operated || m.stale || m.resumed.mayDouble(address) {
		return
	}
	for other, at := range m.living {
		if at.until.IsZero() && !m.resumed.mayDouble(other) && at.owner != c.request.Owner && ipam.FamilyOf(other) == ipam.FamilyOf(address) && sameKey(at.job, c.request.Job) {
			m.fail("%s/%s has %s with %s, and gets %s with %s", at.job.Job, at.job.Key, other, at.owner.ContainerID, address, c.request.Owner.ContainerID)
		}
	}
}

// checkLimit requires that a job has no more addresses than it may have.
func (m *model) checkLimit(job ipam.Job) {
	limit := m.config.MaxReservedPerJob
	if limit == 0 || m.rolledBack || m.operated || m.stale {
		return
	}
	var has []netip.Addr
	for _, address := range sorted(m.living) {
		if at := m.living[address]; at.until.IsZero() && sameJob(at.job, job) && !m.resumed.mayDouble(address) {
			has = append(has, address)
		}
	}
	// What arrives late is not counted by those who have confirmed theirs.
	if len(has) > limit+m.arrived {
		m.fail("job %s has %v: more than %d, and %d requests were late", job.Job, has, limit, m.arrived)
	}
	if len(has) == limit {
		m.counts.atLimit.Add(1)
	}
}

// checkSticky requires that a key that has an address gets no other: no other entry is kept
// for it. An old state of the store, or one that was restored, may hide one.
func (m *model) checkSticky(job ipam.Job, address netip.Addr) {
	if m.rolledBack || m.stale {
		return
	}
	for _, e := range m.store.entries {
		content, err := ipam.DecodeAddress(e.Content, m.config)
		if err == nil && content.Address != address && ipam.FamilyOf(content.Address) == ipam.FamilyOf(address) && content.State == ipam.Free && sameKey(content.Job, job) {
			m.fail("%s/%s gets %s, and %s is kept for it", job.Job, job.Key, address, content.Address)
		}
	}
}

// leaving is for how long an interface stays after plugins were called to remove it: some free
// its address first. It is less than quiet, because the hosts' clocks differ.
const leaving = 4 * time.Second

// leave lets a namespace end soon. What is published for it stays until the host removes it.
func (m *model) leave(c *container) {
	for address, at := range m.living {
		if at.owner != c.request.Owner || !at.until.IsZero() {
			continue
		}
		if at.dead = at.published; !at.published {
			at.until = m.time.Add(leaving)
		}
		m.living[address] = at
	}
}

// pass lets time pass, and those namespaces end that are leaving.
func (m *model) pass(d time.Duration) {
	m.time = m.time.Add(d)
	for address, at := range m.living {
		if !at.until.IsZero() && !m.time.Before(at.until) {
			delete(m.living, address)
		}
	}
}

// vacate ends a namespace.
func (m *model) vacate(c *container) {
	for address, at := range m.living {
		if at.owner == c.request.Owner {
			delete(m.living, address)
		}
	}
}

// idle returns the containers that no process works for.
func (m *model) idle() []*container {
	return slices.DeleteFunc(slices.Clone(m.containers), func(c *container) bool { return c.busy || c.deleted || c.host.dead })
}

func (m *model) del() {
	idle := m.idle()
	if len(idle) == 0 {
		return
	}
	m.delete(oneOf(m, idle))
}

func (m *model) delete(c *container) *process {
	m.leave(c)
	m.complete[c.request.Job.Allocation] = m.time
	c.busy = true
	p := m.start(c.host, "DEL "+c.request.Owner.ContainerID, func(p *process) {
		if err := p.addresses().Free(context.Background(), c.request.Owner); err != nil {
			m.trace("%s: %v", p.name, err)
		}
		c.deleted = !p.killed
	}, func() { c.busy = false })
	return p
}

// die ends a namespace without DEL, as when its host's runtime is killed. Nomad says so, or
// thinks that the allocation is lost.
func (m *model) die() {
	idle := m.idle()
	if len(idle) == 0 {
		return
	}
	c := oneOf(m, idle)
	m.trace("%s dies", c.request.Owner.ContainerID)
	if m.leave(c); !c.request.Published {
		m.vacate(c)
	}
	if m.random.IntN(2) == 0 {
		m.complete[c.request.Job.Allocation] = m.time
	}
}

// collect removes the leases of containers that are dead.
func (m *model) collect(h *modelHost) {
	needed := map[ipam.Owner]bool{}
	for _, at := range m.living {
		needed[at.owner] = needed[at.owner] || at.host == h && !at.dead
	}
	for _, c := range m.containers {
		needed[c.request.Owner] = needed[c.request.Owner] || c.busy && c.host == h
	}
	for _, address := range sorted(h.leases) {
		if owner := h.leases[address]; !needed[owner] {
			m.trace("the lease of %s by %s on %d is removed", address, owner.ContainerID, h.number)
			delete(h.leases, address)
		}
	}
}

func (m *model) verify(h *modelHost) *process {
	return m.background(h, "verify", func(ctx context.Context, a *Addresses) error {
		v, err := a.Verify(ctx)
		m.trace("verify on %d: %+v", h.number, v)
		m.counts.restored.Add(int64(len(v.Restored)))
		m.counts.freedUnknown.Add(int64(len(v.Freed)))
		return err
	})
}

func (m *model) reclaim(h *modelHost) *process {
	return m.background(h, "reclaim", func(ctx context.Context, a *Addresses) error {
		freed, err := a.Reclaim(ctx)
		m.counts.reclaimed.Add(int64(len(freed)))
		return err
	})
}

func (m *model) adopt(h *modelHost) *process {
	return m.background(h, "adopt", func(ctx context.Context, a *Addresses) error {
		_, err := a.Adopt(ctx, func(address netip.Addr) (bool, error) { return m.living[address].host == h, nil })
		return err
	})
}

func (m *model) operate(h *modelHost) {
	address := m.address(oneOf(m, m.config.Families()))
	job := ipam.Job{Namespace: "default", Job: oneOf(m, []string{"web", "db"}), Key: oneOf(m, []string{"", "0"})}
	m.operated = true
	if m.random.IntN(2) == 0 {
		m.background(h, "unreserve "+address.String(), func(ctx context.Context, a *Addresses) error { return a.Unreserve(ctx, address) })
		return
	}
	m.background(h, fmt.Sprintf("reserve %s for %s/%s", address, job.Job, job.Key), func(ctx context.Context, a *Addresses) error { return a.Reserve(ctx, address, job) })
}

// disaster is a reboot, the loss of a state directory, or that of a host.
func (m *model) disaster() {
	hosts := m.alive()
	h := oneOf(m, hosts)
	if len(hosts) < 2 || h.copied != nil || h.copyOf != nil {
		return
	}
	for _, p := range slices.Clone(m.running) {
		if p.host == h {
			m.step(p, false)
		}
	}
	n := m.random.IntN(5)
	switch {
	case n == 4 && !m.rolledBack && len(h.records) > 0:
		m.lostState = true
		address := oneOf(m, sorted(h.records))
		m.trace("host %d loses its record of %s", h.number, address)
		delete(h.records, address)
	case n == 0 && !m.rolledBack:
		m.lostState = true
		m.trace("host %d loses its state directory", h.number)
		h.host.Instance = fmt.Sprintf("%032x", m.random.Uint64())
		h.records, h.memory = map[netip.Addr]record{}, nil
		maps.DeleteFunc(m.living, func(_ netip.Addr, at residence) bool { return at.published && at.host == h }) // by an operator
		if m.random.IntN(2) == 0 {
			clear(h.leases)
		}
	case n == 1:
		m.trace("host %d is destroyed", h.number)
		m.endAll(h)
		h.dead, m.gone[h.host.NodeID] = true, true
	default:
		m.trace("host %d reboots", h.number)
		m.endAll(h)
		m.boot(h)
		clear(h.leases)
	}
}

// copyDisk boots another machine with a copy of a host's disk.
func (m *model) copyDisk() {
	h := oneOf(m, m.alive())
	if m.copied || m.rolledBack || m.lostState {
		return
	}
	m.copied = true
	m.counts.copies.Add(1)
	c := &modelHost{number: len(m.hosts), host: h.host, records: maps.Clone(h.records), memory: copyMemory(h.memory), leases: maps.Clone(h.leases), copyOf: h}
	m.boot(c)
	if h.copied = c; m.random.IntN(2) == 0 {
		c.host.NodeID = "copy"
	}
	m.hosts = append(m.hosts, c)
	m.trace("host %d is a copy of %d", c.number, h.number)
}

// repair is what an operator does with a copy: its containers end, and what it took is removed.
func (m *model) repair(c *modelHost) {
	m.trace("the copy %d is repaired", c.number)
	m.endAll(c)
	c.dead = true
	for path, e := range m.store.entries {
		content, err := ipam.DecodeAddress(e.Content, m.config)
		if err != nil || !slices.Contains(c.boots, content.Host.Boot) {
			continue
		}
		if _, err := m.store.apply(change{path: path, index: e.Index, remove: true}); err != nil {
			m.fail("%s: %v", path, err)
		}
	}
}

// backUp saves the records of a host, or restores them.
func (m *model) backUp() {
	h := oneOf(m, m.alive())
	if h.backup == nil || m.random.IntN(3) == 0 {
		h.backup = maps.Clone(h.records)
		return
	}
	if m.rolledBack || m.lostState || h.copied != nil || h.copyOf != nil {
		return
	}
	m.trace("the state directory of host %d is restored", h.number)
	m.counts.recovered.Add(1)
	h.records = maps.Clone(h.backup)
}

// jump steps the clock of a host.
func (m *model) jump() {
	if h := oneOf(m, m.alive()); !m.rolledBack {
		m.jumped = true
		m.counts.jumps.Add(1)
		h.skew = time.Duration(m.random.IntN(101)-50) * time.Hour / 2
		m.trace("the clock of host %d is wrong by %s", h.number, h.skew)
	}
}

func (m *model) endAll(h *modelHost) {
	for _, c := range m.containers {
		if c.host == h {
			m.vacate(c)
		}
	}
}

// rollBack restores the store from a snapshot. The hosts' agents have seen its last state,
// and verify soon after.
func (m *model) rollBack() {
	for before := uint64(0); before != m.store.highest; {
		before = m.store.highest
		m.verifyAll()
	}
	n := len(m.store.history)
	if n == 0 {
		return
	}
	old, moved := m.snapshot()
	m.trace("the store is restored to %d", old.index)
	m.store.history, m.store.version = append(m.store.history, m.store.version), old
	m.rolledBack = true
	m.counts.rollbacks.Add(1)
	for range 3 { // some are faster than those who verify
		m.add(oneOf(m, m.alive()))
	}
	for range 150 {
		if len(m.running) > 0 {
			m.step(oneOf(m, m.running), true)
		}
	}
	if moved.host != nil {
		m.addAt(moved)
	}
	for range 20 {
		m.verifyAll()
		m.pass(2 * time.Second)
		if m.random.IntN(3) == 0 && len(m.running) < 5 {
			m.add(oneOf(m, m.alive()))
		}
	}
}

// residenceAt is an address that a host had.
type residenceAt struct {
	host    *modelHost
	address netip.Addr
	job     ipam.Job
}

// snapshot returns an earlier state of the store. Of several it is one in which another host
// has an address than the one where it lives, if there is one.
func (m *model) snapshot() (*version, residenceAt) {
	var old *version
	for range 8 {
		old = m.store.history[m.random.IntN(len(m.store.history))]
		for _, address := range sorted(m.living) {
			content, err := ipam.DecodeAddress(old.entries[ipam.AddressPath("test", address)].Content, m.config)
			for _, h := range m.alive() {
				if err == nil && content.State == ipam.Held && content.Host.Instance == h.host.Instance && m.living[address].host != h {
					return old, residenceAt{h, address, m.living[address].job}
				}
			}
		}
	}
	return old, residenceAt{}
}

// addAt sets up a container on the host that had an address, which is patient.
func (m *model) addAt(at residenceAt) {
	c := &container{request: m.request(), host: at.host}
	c.request.Job.Job, c.request.Addresses = at.job.Job, nil
	c.request.Addresses = []netip.Addr{at.address}
	m.setUp(c)
	m.running[len(m.running)-1].patience = 1000
}

// verifyAll lets all hosts verify, without faults, while other processes go on.
func (m *model) verifyAll() {
	var all []*process
	for _, h := range m.alive() {
		all = append(all, m.verify(h))
	}
	m.drain(all)
}

// settle ends a schedule: what is held is known, and when all is given back, nothing remains.
func (m *model) settle() {
	for len(m.store.late) > 0 {
		m.arrive(0)
	}
	for _, h := range m.alive() {
		if h.skew = 0; h.copyOf != nil {
			m.repair(h)
		}
	}
	for _, h := range m.alive() {
		m.collect(h)
		delete(m.gone, h.host.NodeID)
	}
	for range 4 {
		m.verifyAll()
		m.pass(settle)
	}
	m.checkHeld()
	m.giveAllBack()
	if m.jumped { // what was freed in the future is so now
		m.pass(26 * time.Hour)
	}
	for address := range m.all() {
		h := oneOf(m, m.alive())
		m.drain([]*process{m.background(h, "unreserve", func(ctx context.Context, a *Addresses) error { return a.Unreserve(ctx, address) })})
	}
	m.checkNothing()
}

// all returns all reserved addresses of the pool.
func (m *model) all() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, f := range m.config.Families() {
		for a := range m.config.ReservedOf(f) {
			all[a] = true
		}
	}
	return all
}

// checkHeld requires that the store says who has the addresses of living namespaces.
func (m *model) checkHeld() {
	for _, address := range sorted(m.living) {
		if m.resumed.mayDouble(address) {
			continue
		}
		at := m.living[address]
		e, ok := m.store.entries[ipam.AddressPath("test", address)]
		content, err := ipam.DecodeAddress(e.Content, m.config)
		if m.rolledBack && content.State == ipam.Held && m.isDestroyed(content.Host) {
			continue // an entry of before, which is given up when the node is gone for the grace
		}
		if !ok || err != nil || content.State != ipam.Held || content.Owner != at.owner || content.Host.NodeID != at.host.host.NodeID {
			m.fail("%s lives on host %d with %s, and the store has %+v, error %v", at.owner.ContainerID, at.host.number, address, content, err)
		}
	}
}

func (m *model) isDestroyed(host ipam.Host) bool {
	return !slices.ContainsFunc(m.alive(), func(h *modelHost) bool { return h.host.Instance == host.Instance })
}

func (m *model) giveAllBack() {
	var all []*process
	for _, c := range m.idle() {
		all = append(all, m.delete(c))
	}
	m.drain(all)
	for range 3 {
		for _, h := range m.alive() {
			m.collect(h)
			m.drain([]*process{m.adopt(h), m.reclaim(h)})
		}
		m.verifyAll()
		m.pass(2 * time.Hour)
	}
}

func (m *model) checkNothing() {
	if left := slices.Sorted(maps.Keys(m.store.entries)); len(left) > 0 {
		m.fail("the store still has %s: %s", left[0], m.store.entries[left[0]].Content)
	}
	for _, h := range m.alive() {
		if len(h.records) > 0 || len(h.leases) > 0 {
			m.fail("host %d still has the records %v, and the leases %v", h.number, h.records, h.leases)
		}
	}
}
