// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// features are what can happen in a schedule. Each has some of them, so that rare sequences of
// a few are found, too.
type features struct {
	kills, reboots, partitions, refusals, restores, clocks, wipes, clones, nodes, deaths, elections, churn, endpoints, copies, backups, purges bool
}

// schedules is how many there are in a run unless the environment says so.
const schedules = 10_000

// TestModel runs random schedules of hosts with a store that has all the faults that the real
// one can have. No address is in two namespaces, each is of a block of its host, and nothing
// remains in the end.
func TestModel(t *testing.T) {
	first, count := storetest.Schedules(t, schedules)
	if count == 1 {
		w := runSchedule(first, true, nil)
		t.Logf("%s\n%v", w, w.counts)
		if w.failure != "" {
			t.Error(w.failure)
		}
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	counts := runSchedules(t, first, count)
	for _, what := range []string{"namespaces", "claimed", "verified", "restored", "moved", "reached", "final"} {
		if uint64(counts[what]) < count/20 {
			t.Errorf("%q happened only %d times", what, counts[what])
		}
	}
	t.Log(counts)
}

// runSchedules runs them on all processors, until three have failed.
func runSchedules(t *testing.T, first, count uint64) map[string]int {
	var next, failed atomic.Uint64
	var mu sync.Mutex // guards total
	total := map[string]int{}
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for failed.Load() < 3 {
				i := next.Add(1) - 1
				if i >= count {
					return
				}
				w := runSchedule(first+i, false, nil)
				if w.failure != "" {
					failed.Add(1)
					t.Errorf("ALLOCNET_MODEL_SCHEDULES=1 ALLOCNET_MODEL_SEED=%d: %s", first+i, w.failure)
				}
				mu.Lock()
				for what, n := range w.counts {
					total[what] += n
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return total
}

// poolConfig has few blocks of few addresses, so that hosts meet.
func poolConfig(subnet, size int) *ipam.Config {
	c, err := ipam.Parse(fmt.Appendf(nil, `{"type": "allocnet-ipam", "pool": "p", "ranges": [{"subnet": "10.0.0.0/%d"}], "blockSize": {"4": %d}, "cooldown": "3s"}`, subnet, size))
	if err != nil {
		panic(err)
	}
	return c
}

var poolConfigs = []*ipam.Config{poolConfig(27, 30), poolConfig(27, 29), poolConfig(28, 30), poolConfig(28, 29)}

func newWorld(seed uint64) *world {
	rnd := rand.New(rand.NewPCG(seed, 0))
	w := &world{rnd: rnd, counts: map[string]int{}, purged: map[string]bool{}, now: time.Hour, config: poolConfigs[rnd.IntN(len(poolConfigs))]}
	w.store = &fakeStore{world: w, faults: []int{0, 5, 20}[rnd.IntN(3)], snapshot: snapshot{entries: map[string]ipam.Entry{}, index: 10, table: 10}, ghost: newGhost()}
	for _, f := range []*bool{&w.features.kills, &w.features.reboots, &w.features.partitions, &w.features.refusals, &w.features.restores,
		&w.features.clocks, &w.features.wipes, &w.features.clones, &w.features.nodes, &w.features.deaths, &w.features.elections, &w.features.churn, &w.features.endpoints,
		&w.features.copies, &w.features.backups, &w.features.purges} {
		*f = w.chance(3)
	}
	for i := range 2 + rnd.IntN(2) {
		w.hosts = append(w.hosts, w.newHost(fmt.Sprint("h", i+1)))
	}
	return w
}

// runSchedule runs one schedule to its end, maybe with a bug.
func runSchedule(seed uint64, tracing bool, b *bug) *world {
	w := newWorld(seed)
	w.tracing = tracing
	if b == nil {
		w.leaveUnattended(rand.New(rand.NewPCG(seed, 1)))
	} else {
		b.enable(&w.features)
		w.flaw = b.read
	}
	w.logf("features: %+v, %d%% faults", w.features, w.store.faults)
	if !w.chance(3) { // hosts that have been there for so long that they may release
		w.round()
		w.now += settle
		w.round()
	}
	for range 15 + w.rnd.IntN(30) {
		for range w.rnd.IntN(12) {
			w.resumeOne()
		}
		w.event()
		if w.failure != "" {
			break
		}
	}
	if w.failure == "" {
		w.finish()
	}
	for _, p := range slices.Clone(w.processes) {
		w.kill(p)
	}
	for _, t := range w.threads {
		t.stop()
	}
	return w
}

// leaveUnattended lets no agent run on some hosts, in some schedules.
func (w *world) leaveUnattended(rnd *rand.Rand) {
	for _, h := range w.hosts {
		h.unattended = rnd.IntN(4) == 0
	}
}

// event lets one thing happen.
func (w *world) event() {
	h := w.hosts[w.rnd.IntN(len(w.hosts))]
	w.deliver(3)
	if w.features.kills && len(w.processes) > 0 && w.chance(6) {
		w.kill(w.processes[w.rnd.IntN(len(w.processes))])
	}
	switch n := w.rnd.IntN(100); {
	case h.dead:
	case w.features.churn && w.chance(4):
		w.release(h)
	case w.features.endpoints && w.chance(8):
		h.move()
	case n < 35:
		w.start(h, "ADD", h.add)
	case n < 47:
		if i := len(h.namespaces); i > 0 {
			w.del(h, h.namespaces[w.rnd.IntN(i)])
		}
	case n < 50:
		w.start(h, "collect", h.collect)
	case n < 60 && h.unattended:
	case n < 54:
		w.start(h, "verify", h.verify)
	case n < 60:
		w.release(h)
	case n < 64:
		w.maintain(h)
	case n < 81:
		w.advance(time.Duration(1+w.rnd.IntN(8)) * time.Second)
	case n < 85:
		w.settle()
	default:
		w.disturb(h)
	}
}

// del ends some attachments of a host.
func (w *world) del(h *fakeHost, ending ...*namespace) {
	for _, n := range slices.Clone(ending) {
		w.start(h, "DEL", func() { h.del(n) })
	}
}

// release gives back what is idle, maybe after all attachments have ended.
func (w *world) release(h *fakeHost) {
	if w.features.churn || w.chance(2) {
		w.del(h, h.namespaces...)
		w.start(h, "collect", h.collect)
		w.drain()
		w.now += h.config.Cooldown
	}
	idle := time.Duration(w.rnd.IntN(2)) * 20 * time.Second
	w.start(h, "release", func() { _, _ = h.agent.Release(context.Background(), idle, w.rnd.IntN(2)) })
}

// maintain is what agents do now and then.
func (w *world) maintain(h *fakeHost) {
	if h.unattended {
		return
	}
	w.start(h, "adopt", func() { _, _ = h.agent.Adopt(context.Background(), h.inUse) })
	w.start(h, "reclaim", func() { _, _ = h.agent.Reclaim(context.Background(), time.Hour, w.gone) })
}

// gone tells whether Nomad does not know a node: no host has had its ID for a day, or an operator
// has removed it.
func (w *world) gone(_ context.Context, nodeID string) (bool, error) {
	if w.purged[nodeID] {
		return true, nil
	}
	for _, h := range w.hosts {
		if h.self.NodeID == nodeID && (h.silent < 0 || w.now-h.silent < 24*time.Hour) {
			return false, nil
		}
	}
	return true, nil
}

// advance lets time pass. Processes go on before, and agents verify after.
func (w *world) advance(d time.Duration) {
	w.drain()
	w.now += d
	w.round()
}

// settle lets so much time pass that what was another's may be claimed.
func (w *world) settle() {
	if w.features.restores { // owners have to verify all the time
		w.quiet(5)
		return
	}
	w.advance(time.Second)
	w.advance(settle)
}

// round is that all agents verify, those that failed again.
func (w *world) round() {
	for range 3 {
		again := false
		for _, h := range w.hosts {
			recent := len(h.verifications) > 0 && h.verifications[len(h.verifications)-1].start > w.now-time.Second
			if !h.dead && !h.unattended && !recent {
				w.start(h, "verify", h.verify)
				again = again || w.store.refusal(h) == nil
			}
		}
		w.drain()
		if !again || w.failure != "" {
			return
		}
	}
}

// disturb lets one of the rarer things happen.
func (w *world) disturb(h *fakeHost) {
	f := &w.features
	switch n := w.rnd.IntN(16); {
	case n == 12 && f.copies && len(w.hosts) < 4:
		w.copy(h)
	case n == 13 && f.backups, n == 14 && f.backups && h.backup == nil:
		h.save()
	case n == 14 && f.backups:
		h.recover()
	case n == 15 && f.purges:
		w.purge(h)
	case n == 0 && f.reboots:
		h.reboot()
	case n == 1 && f.partitions:
		w.toggle(h)
	case n == 2 && f.refusals:
		h.refused = !h.refused
	case n == 3 && f.clocks:
		h.skew += time.Duration(w.rnd.IntN(101)-50) * time.Hour / 2
	case n == 4 && f.wipes && h.twin == nil:
		h.wipe(w.chance(2))
	case n == 5 && f.clones && len(w.hosts) < 4:
		w.clone(h)
	case n == 6 && f.nodes:
		w.drain()
		h.self.NodeID = "node-" + w.id()
	case n == 7 && f.deaths:
		w.die(h)
	case n == 8 && f.elections:
		w.store.stale = w.now + staleness
	case f.restores && (len(w.store.saved) == 0 || w.chance(3)):
		w.store.save()
	case f.restores:
		w.restore()
	}
}

// toggle cuts a host from the store, or ends that.
func (w *world) toggle(h *fakeHost) {
	if h.cut = !h.cut; h.cut {
		h.silent = w.now
	} else {
		h.silent = -1
	}
	w.logf("%s is cut from the store: %v", h, h.cut)
}

// restore goes back to a snapshot. New servers are preceded by an outage that agents notice.
func (w *world) restore() {
	saved := w.store.saved[w.rnd.IntN(len(w.store.saved))]
	newServers := w.chance(2)
	if newServers {
		w.store.down = true
		w.advance(attention)
		w.store.down = false
	}
	w.store.restore(saved, newServers)
	if newServers { // those of the lost timeline are of no other
		w.store.saved = slices.DeleteFunc(w.store.saved, func(s snapshot) bool { return s.index > saved.index })
	}
}

// wipe removes the state directory, and maybe the leases.
func (h *fakeHost) wipe(leases bool) {
	h.logf("%s loses its state, leases: %v", h, leases)
	h.end()
	h.files, h.verifications, h.recovered, h.created, h.registered, h.confirmed = map[string][]byte{}, nil, false, h.now, -1, -1
	h.separate()
	h.self.Instance = h.id()
	h.bear()
	g := &h.store.ghost
	g.instances[h.self.Instance] = append(g.instances[h.self.Instance], h)
	if leases {
		h.leases, h.freed = map[netip.Addr]*namespace{}, map[netip.Addr]time.Time{}
	}
	h.agent = h.open()
}

// separate ends that a host has a twin: it has another instance from now on.
func (h *fakeHost) separate() {
	if h.twin == nil {
		return
	}
	h.twin.twin, h.twin, h.clone = nil, nil, false
}

// purge has Nomad forget a node that may live, or know it again. Others reclaim what it has, now
// and after the grace.
func (w *world) purge(h *fakeHost) {
	w.purged[h.self.NodeID] = !w.purged[h.self.NodeID]
	w.logf("Nomad does not know %s: %v", h, w.purged[h.self.NodeID])
	for range 4 {
		for _, h := range w.hosts {
			if !h.dead {
				w.maintain(h)
			}
		}
		w.advance(61 * time.Minute)
	}
}

// save backs up the state directory.
func (h *fakeHost) save() {
	h.logf("%s is backed up", h)
	h.backup, h.backupOf = maps.Clone(h.files), h.self.Instance
}

// recover restores the state directory from its backup, beneath the processes that are running
// or with them stopped.
func (h *fakeHost) recover() {
	if h.backupOf != h.self.Instance {
		return
	}
	if h.chance(2) { // of a time before others got what it had
		h.release(h)
		h.drain()
		for _, other := range h.hosts {
			if other != h && !other.dead {
				h.start(other, "ADD", other.add)
			}
		}
		h.drain()
	}
	h.logf("%s is restored from its backup", h)
	if h.chance(2) {
		h.end()
		h.agent = h.open()
	}
	h.files = maps.Clone(h.backup)
	for _, n := range h.namespaces {
		n.lost = false
	}
	h.start(h, "ADD", h.add)
}

// end ends all processes.
func (h *fakeHost) end() {
	for _, p := range slices.Clone(h.processes) {
		if p.host == h {
			h.kill(p)
		}
	}
}

// clone copies a host's disk to a new machine.
func (w *world) clone(h *fakeHost) {
	if h.twin != nil || h.dead {
		return
	}
	c := w.newHost(h.name + "'")
	w.logf("%s is a clone of %s", c, h)
	boot := c.self.Boot
	c.self, c.boots = h.self, []string{boot}
	c.self.Boot, c.born = boot, h.born
	if w.chance(3) {
		c.self.MachineID = "machine-" + c.name
	}
	if w.chance(2) {
		c.self.NodeID = "node-" + w.id()
	}
	c.files, c.freed = maps.Clone(h.files), maps.Clone(h.freed)
	for a := range h.leases {
		c.leases[a] = &namespace{host: c, address: a}
	}
	c.clone, c.marked, c.twin, h.twin = true, h.files[nodeFile] != nil, h, c
	c.answered, c.verifications = h.answered, slices.Clone(h.verifications)
	w.store.ghost.cloned(h, c)
	w.hosts = append(w.hosts, c)
	w.start(c, "collect", c.collect)
	if w.features.endpoints {
		c.move()
	}
}

// copy makes a second machine of a host's snapshot with its memory: both go on in one boot. What
// was running is twice.
func (w *world) copy(h *fakeHost) {
	if h.twin != nil || h.dead {
		return
	}
	c := w.newHost(h.name + "'")
	w.logf("%s is a copy of %s with its memory", c, h)
	c.self, c.born, c.booted, c.skew, c.created, c.confirmed = h.self, h.born, h.booted, h.skew, h.created, h.confirmed
	c.files, c.present, c.freed = maps.Clone(h.files), maps.Clone(h.present), maps.Clone(h.freed)
	for a, n := range h.leases {
		c.leases[a] = &namespace{host: c, address: a, alive: n.alive, since: n.since}
		if n.alive {
			c.namespaces = append(c.namespaces, c.leases[a])
		}
	}
	c.clone, c.memory, c.twin, h.twin, c.forked = true, true, h, c, w.now
	c.answered, c.verifications = h.answered, slices.Clone(h.verifications)
	w.store.ghost.cloned(h, c)
	w.hosts = append(w.hosts, c)
}

// die ends a host for ever, or a day passes for those that the store does not hear of.
func (w *world) die(h *fakeHost) {
	if w.chance(3) && !slices.ContainsFunc(w.hosts, func(o *fakeHost) bool { return o.dead }) && h.twin == nil {
		w.logf("%s dies", h)
		h.stop()
		h.dead, h.silent = true, w.now
		return
	}
	w.day()
}

// day lets so much time pass that silent nodes are forgotten. Their namespaces have ended by
// then, as stop_on_client_after does.
func (w *world) day() {
	w.drain()
	w.now += 26 * time.Hour
	w.logf("a day passes")
	for _, h := range w.hosts {
		if h.silent >= 0 {
			for _, n := range h.namespaces {
				n.alive = false
			}
			h.namespaces = nil
		}
	}
	w.round()
}

// finish ends all disturbances, requires that each host can add, and releases everything.
func (w *world) finish() {
	w.logf("the end begins")
	w.store.faults, w.features.kills = 0, false
	w.drain()
	for len(w.store.pending) > 0 {
		w.store.finish(w.store.pending[0])
	}
	w.purged = map[string]bool{}
	for _, h := range w.hosts {
		h.refused, h.unattended = false, false
		if h.cut && !h.dead {
			w.toggle(h)
		}
		if h.clone {
			w.repair(h)
		}
	}
	w.quiet(1)
	for _, h := range w.hosts {
		if w.features.backups && bytes.Contains(h.files[nodeFile], []byte(`"twin":true`)) {
			w.readmit(h) // its state was restored while it was off
		}
	}
	for _, h := range w.hosts {
		if !h.dead {
			w.start(h, "collect", h.collect)
		}
	}
	w.quiet(3)
	if w.requireAdds(); w.failure != "" {
		return
	}
	w.requireReached()
	for _, h := range w.hosts {
		h.stop()
		if !h.dead {
			w.start(h, "collect", h.collect)
		}
	}
	w.round() // what was freed in the future cools down from now on
	w.advance(settle)
	w.releaseAll()
	w.requireNothing()
}

// repair is what an operator does with a clone.
func (w *world) repair(h *fakeHost) {
	w.logf("%s is repaired", h)
	original, boots := h.twin, h.boots
	h.stop()
	h.wipe(true)
	entries := maps.Clone(w.store.entries)
	delete(entries, ipam.NodePath(original.self.Instance))
	for path, e := range entries { // what the copy has claimed
		if content, err := ipam.DecodeBlock(e.Content, w.config); err == nil && content.Host.Instance == original.self.Instance && slices.Contains(boots, content.Host.Boot) && !original.keeps(path) {
			delete(entries, path)
		}
	}
	w.store.index++
	w.store.replace(snapshot{at: w.now, entries: entries, table: w.store.index, index: w.store.index})
}

// readmit is what an operator does with a host that is refused, and has no copy.
func (w *world) readmit(h *fakeHost) {
	w.logf("%s is readmitted", h)
	entries := maps.Clone(w.store.entries)
	delete(entries, ipam.NodePath(h.self.Instance))
	w.store.index++
	w.store.replace(snapshot{at: w.now, entries: entries, table: w.store.index, index: w.store.index})
}

// quiet lets agents verify for some rounds.
func (w *world) quiet(rounds int) {
	for range rounds {
		w.advance(9 * time.Second)
	}
}

// requireAdds requires that each host can add while blocks are free, at the latest when it may
// claim those that were another's.
func (w *world) requireAdds() {
	for _, h := range w.hosts {
		// blocks that are claimed may be full of what a host had before it lost its state, or some
		old := slices.ContainsFunc(h.namespaces, func(n *namespace) bool { return n.since < h.created || !h.hasRecord(h.pathOf(n)) })
		if h.dead || old || w.added(h) {
			continue
		}
		w.quiet(7)
		full := w.count()+w.store.ghost.vanished(w.now-settle-attention) >= w.slots()
		if !full && w.failure == "" && !w.added(h) {
			w.fail("%s cannot add although only %d blocks are claimed", h, w.count())
		}
	}
}

// requireReached requires that the entry of each block that a host has says where it is reached.
func (w *world) requireReached() {
	w.advance(settle) // no machine is new any more
	for _, h := range w.hosts {
		recorded, err := readEndpoint(h.agent.ledger.dir, h.self.Instance)
		if err != nil || recorded == nil || h.dead {
			continue
		}
		for _, r := range h.records().Blocks {
			path := ipam.BlockPath(w.config.Pool, r.Block)
			if entry := w.store.entries[path]; r.State == Held && endpointOf(w.config, entry) != *recorded {
				w.fail("%s is reached at %s, and %s says %s", h, recorded.Address, path, entry.Content)
			}
			w.counts["reached"]++
		}
	}
}

// added tells whether a host could add.
func (w *world) added(h *fakeHost) bool {
	before := w.counts["namespaces"]
	w.start(h, "ADD", h.add)
	w.drain()
	return w.counts["namespaces"] > before
}

// slots returns the number of blocks with addresses.
func (w *world) slots() int {
	n, slots := 0, w.config.Slots(ipam.IPv4)
	for i := range slots.Count() {
		if w.config.Capacity(slots.At(i)) > 0 {
			n++
		}
	}
	return n
}

// count returns the number of blocks in the store.
func (w *world) count() int {
	n := 0
	for path := range w.store.entries {
		if isBlock(path) {
			n++
		}
	}
	return n
}

// releaseAll gives back all blocks, and takes those of hosts and instances that are gone.
func (w *world) releaseAll() {
	rounds, f := 1, w.features // what is seen twice is taken, and then released
	switch {
	case f.wipes || f.clones || f.copies:
		rounds = 4
	case f.deaths || f.nodes || f.restores || f.backups || f.purges:
		rounds = 3
	}
	for range rounds {
		w.day()
		for _, h := range w.hosts {
			if h.dead {
				continue
			}
			w.maintain(h)
			w.drain()
			w.start(h, "release", func() {
				if _, err := h.agent.Release(context.Background(), 0, 0); err != nil {
					w.fail("%s: release: %v", h, err)
				}
			})
			w.drain()
		}
		w.advance(settle) // in which copies could object
	}
}

// requireNothing requires that no block is left, in the store and on the hosts.
func (w *world) requireNothing() {
	for path := range w.store.entries {
		if isBlock(path) {
			w.fail("%s is left in the store: %s", path, w.store.entries[path].Content)
		}
	}
	for _, h := range w.hosts {
		if r := h.records(); len(r.Blocks) > 0 && !h.dead {
			w.fail("%s still has the records %v", h, r.Blocks)
		}
	}
	w.counts["final"]++
}
