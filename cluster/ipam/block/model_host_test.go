// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/hostid"
	"github.com/allocnet/allocnet/cluster/ipam"
)

// fakeHost has the files of a host, its network namespaces and its clock.
type fakeHost struct {
	*world
	name string
	self ipam.Host
	// boots are those of the machine, since it was made as a copy.
	boots []string
	// born is on the disk.
	born birth
	// files are those of the state directory; leases and freed those of package local.
	// present has the files that are gone after a boot.
	files, present map[string][]byte
	// backup are the files of a backup, of the instance backupOf.
	backup     map[string][]byte
	backupOf   string
	leases     map[netip.Addr]*namespace
	freed      map[netip.Addr]time.Time
	namespaces []*namespace
	// lease, store and node are the locks.
	lease, pool, node fakeLock
	// agent is the agent's Leases, which live as long as it does.
	agent *Leases
	// recovered: the agent has looked once for what only namespaces know, as it does when it starts.
	recovered bool
	// unattended: no agent runs here.
	unattended bool
	// cut is a partition from the store, and refused a token without rights.
	cut, refused bool
	// dead hosts never run again.
	dead bool
	// skew is by what the clock is wrong, and booted when the host did.
	skew   time.Duration
	booted time.Duration
	// verifications are those that ended well, since the state directory was made.
	verifications []verification
	// twin is the other machine with the same state directory.
	twin *fakeHost
	// clone: the host is a copy of twin.
	clone bool
	// memory: it was made with the memory of the original, at forked.
	memory bool
	forked time.Duration
	// marked: the original had used the store, and the clone's disk says on which machine.
	marked bool
	// registered is when the machine first wrote its nonce in this boot.
	registered time.Duration
	// confirmed is when the machine knew that its nonce is in the store, in this boot.
	confirmed time.Duration
	// superseded is when the original of a clone last wrote a nonce that the clone does not know.
	superseded time.Duration
	// created is when the machine, or its state directory, was made.
	created time.Duration
	// answered is when the store last answered.
	answered time.Duration
	// silent is since when Nomad has not heard of the host.
	silent time.Duration
}

// birth is which machine made an instance, and when.
type birth struct{ instance, machine, boot string }

type verification struct{ start, end time.Duration }

// namespace is an attachment's. It lives from when it has its address.
type namespace struct {
	host    *fakeHost
	address netip.Addr
	alive   bool
	// since is when the lease was made, and informed whether the host could know of its twin by
	// then.
	since    time.Duration
	informed bool
	// lost: the host has verified since, and its block was another's.
	lost bool
	// by is the ADD that made the lease.
	by *process
}

func (w *world) newHost(name string) *fakeHost {
	h := &fakeHost{world: w, name: name, files: map[string][]byte{}, present: map[string][]byte{}, leases: map[netip.Addr]*namespace{}, freed: map[netip.Addr]time.Time{},
		booted: w.now, created: w.now, silent: -1, registered: -1, confirmed: -1, superseded: -1}
	h.self = ipam.Host{Instance: w.id(), NodeID: "node-" + w.id(), NodeName: name, MachineID: "machine-" + name, Boot: w.id()}
	h.bear()
	w.store.ghost.instances[h.self.Instance] = append(w.store.ghost.instances[h.self.Instance], h)
	h.agent = h.open()
	return h
}

// bear records when the instance was made. Files of earlier releases do not say it.
func (h *fakeHost) bear() {
	if h.born = (birth{}); !h.chance(4) {
		h.born = birth{h.self.Instance, h.self.MachineID, h.self.Boot}
	}
}

func (h *fakeHost) String() string { return h.name }

// now and uptime are the host's clock.
type fakeClock struct{ *fakeHost }

func (c fakeClock) now() time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(c.world.now + c.skew)
}

func (c fakeClock) uptime() time.Duration { return c.world.now - c.booted }

// fakeDisk has the files of a directory.
type fakeDisk struct {
	*fakeHost
	locks *fakeLock
	// volatile are those that a boot ends.
	volatile bool
}

func (d *fakeDisk) all() map[string][]byte {
	if d.volatile {
		return d.present
	}
	return d.files
}

func (d *fakeDisk) read(name string) ([]byte, error) {
	data := d.all()[name]
	if d.flaw != nil && data != nil {
		data = d.flaw(d.fakeHost, name, data)
	}
	return data, nil
}

func (d *fakeDisk) pathOf(name string) string { return name }

func (d *fakeDisk) write(name string, data []byte) error {
	p := d.current
	p.step()
	d.all()[name] = slices.Clone(data)
	if name == nodeFile && d.confirmed < 0 && strings.Contains(string(data), `"registered":{"time":"20`) {
		d.confirmed = d.now
	}
	if name == nodeFile && strings.Contains(string(data), `"registered":{"time":"0001`) { // refused, or in another boot
		d.registered, d.confirmed = -1, -1
	}
	d.logf("%s %s writes %s %s", d.fakeHost, p.name, name, data)
	p.step()
	return nil
}

func (d *fakeDisk) lock(context.Context) (func(), error) { return d.current.acquire(d.locks), nil }

// open returns the Leases of a new process.
func (h *fakeHost) open() *Leases {
	l := New(Options{Config: h.config, Addresses: h, Connect: func() (ipam.Store, ipam.Host, error) {
		return h.store, h.self, nil
	}})
	l.machine.clock, l.machine.random = fakeClock{h}, h.id
	l.pick = func(n uint64) uint64 { return h.rnd.Uint64N(n) }
	l.ledger.dir, l.machine.dir = &fakeDisk{h, &h.pool, false}, &fakeDisk{h, &h.node, false}
	l.ledger.run, l.machine.run = &fakeDisk{h, nil, true}, &fakeDisk{h, nil, true}
	l.machine.self = func() (hostid.Identity, error) {
		return hostid.Identity{Host: h.self, Born: h.born == birth{h.self.Instance, h.self.MachineID, h.self.Boot}}, nil
	}
	return l
}

// Lock takes the lease lock.
func (h *fakeHost) Lock(context.Context) (func(), error) { return h.current.acquire(&h.lease), nil }

func (h *fakeHost) LastUse(b ipam.Block) (int, time.Time, error) {
	leases, cool, now := 0, time.Time{}, fakeClock{h}.now()
	for a := range h.leases {
		if b.Contains(a) {
			leases++
		}
	}
	for a, at := range h.freed {
		if at.After(now) {
			at, h.freed[a] = now, now
		}
		if b.Contains(a) && at.Add(h.config.Cooldown).After(cool) {
			cool = at.Add(h.config.Cooldown)
		}
	}
	return leases, cool, nil
}

func (h *fakeHost) Forget(b ipam.Block) error {
	for a := range h.freed {
		if b.Contains(a) {
			delete(h.freed, a)
		}
	}
	return nil
}

// add is the plugin's ADD: an address of a block that the host has, or of one that it claims.
func (h *fakeHost) add() {
	l, ctx := h.open(), context.Background()
	_ = l.Refresh(ctx) // what was verified stays so
	for range 2 {
		n, open, err := h.take(ctx, l)
		if errors.Is(err, ipam.ErrFenced) && h.unattended {
			if err = l.Verify(ctx); err == nil {
				n, open, err = h.take(ctx, l)
			}
		}
		if err != nil {
			h.logf("%s ADD: %v", h, err)
			return
		}
		if n != nil {
			h.current.step()
			h.configure(n)
			return
		}
		if _, err := l.Claim(ctx, ipam.IPv4, open); err != nil {
			h.logf("%s ADD: %v", h, err)
			return
		}
	}
}

// take makes the lease of a free address. Without one it returns the blocks that have none.
func (h *fakeHost) take(ctx context.Context, l *Leases) (*namespace, []ipam.Block, error) {
	unlock, _ := h.Lock(ctx)
	defer unlock()
	o, err := l.Overview()
	if err != nil || o.Closed != nil {
		return nil, nil, errors.Join(err, o.Closed)
	}
	now := fakeClock{h}.now()
	for _, b := range o.Open() {
		for i := range h.config.Offsets(b) {
			a := ipam.At(b, i)
			freed := h.freed[a]
			if freed.After(now) {
				freed, h.freed[a] = now, now
			}
			if h.leases[a] == nil && (freed.IsZero() || now.Sub(freed) >= h.config.Cooldown) {
				n := &namespace{host: h, address: a, by: h.current, since: h.now, informed: h.informed()}
				h.current.step()
				h.leases[a] = n
				return n, nil, nil
			}
		}
	}
	return nil, o.Open(), nil
}

// configure is the address in the namespace.
func (h *fakeHost) configure(n *namespace) {
	n.alive = true
	h.namespaces = append(h.namespaces, n)
	h.counts["namespaces"]++
	h.logf("%s has %s", h, n.address)
	h.checkNew(n)
}

// del is the plugin's DEL, or what cleanup does for a namespace that is gone.
func (h *fakeHost) del(n *namespace) {
	n.alive = false
	h.namespaces = slices.DeleteFunc(h.namespaces, func(other *namespace) bool { return other == n })
	unlock, _ := h.Lock(context.Background())
	defer unlock()
	if h.leases[n.address] != n {
		return
	}
	h.freed[n.address] = fakeClock{h}.now()
	h.current.step()
	delete(h.leases, n.address)
}

// collect removes the leases without a living namespace: those of killed processes, of earlier
// boots, and on a clone those of its original.
func (h *fakeHost) collect() {
	for _, a := range slices.SortedFunc(maps.Keys(h.leases), netip.Addr.Compare) {
		if n := h.leases[a]; n != nil && !n.alive && !slices.Contains(h.processes, n.by) {
			h.del(n)
		}
	}
}

// verify is a round of the agent.
func (h *fakeHost) verify() {
	start := h.now
	h.agent.machine.attends.Store(true)
	err := h.agent.Verify(context.Background())
	h.logf("%s verified: %v", h, err)
	recovered, errRecover := h.agent.Recover(context.Background(), !h.recovered, h.used)
	h.recovered = h.recovered || errRecover == nil
	if len(recovered) > 0 || errRecover != nil {
		h.logf("%s recovered %v: %v", h, recovered, errRecover)
	}
	h.noteLost()
	if err == nil || onlyTwin(err) {
		h.verifications = append(h.verifications, verification{start, h.now})
		h.counts["verified"]++
	}
}

// noteLost notes of which namespaces the host knows that their blocks were another's.
func (h *fakeHost) noteLost() {
	for _, n := range h.namespaces {
		n.lost = n.lost || h.hasLost(h.pathOf(n))
	}
}

// move changes where the host is reached. Its agent may be killed before it has said so.
func (h *fakeHost) move() {
	h.ids++
	e := ipam.Endpoint{Address: netip.AddrFrom4([4]byte{192, 0, byte(h.ids >> 8), byte(h.ids)})}
	h.logf("%s is reached at %s", h, e.Address)
	h.start(h, "endpoint", func() {
		err := h.agent.SetEndpoint(context.Background(), e)
		h.logf("%s set its endpoint %s: %v", h, e.Address, err)
	})
}

// endpointOf returns the endpoint of a block's entry.
func endpointOf(c *ipam.Config, e ipam.Entry) ipam.Endpoint {
	content, err := ipam.DecodeBlock(e.Content, c)
	if err != nil {
		panic(err)
	}
	return content.Endpoint
}

// onlyTwin tells whether a verification ended well but for a twin.
func onlyTwin(err error) bool {
	return errors.Is(err, ipam.ErrTwin) && !errors.Is(err, ipam.ErrUnavailable) && !errors.Is(err, ipam.ErrRefused) && !errors.Is(err, ipam.ErrConflict)
}

func (h *fakeHost) inUse(b ipam.Block) (bool, error) {
	return slices.ContainsFunc(h.namespaces, func(n *namespace) bool { return n.alive && b.Contains(n.address) }), nil
}

// used are the addresses of the host's namespaces.
func (h *fakeHost) used() (all []netip.Addr, err error) {
	for _, n := range h.namespaces {
		all = append(all, n.address)
	}
	return all, nil
}

// records are what the host's disk says.
func (h *fakeHost) records() records {
	var r records
	if data := h.files[recordsFile]; data != nil {
		if err := json.Unmarshal(data, &r); err != nil {
			panic(err)
		}
	}
	return r
}

// reboot ends all processes and namespaces. The agent starts again.
func (h *fakeHost) reboot() {
	h.logf("%s reboots", h)
	h.stop()
	h.present = map[string][]byte{}
	h.booted, h.self.Boot, h.registered, h.confirmed = h.now, h.id(), -1, -1
	h.boots = append(h.boots, h.self.Boot)
	h.agent = h.open()
	h.start(h, "collect", h.collect)
}

// stop ends all processes and namespaces.
func (h *fakeHost) stop() {
	h.end()
	for _, n := range h.namespaces {
		n.alive = false
	}
	h.namespaces = nil
}
