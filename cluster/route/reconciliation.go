// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
)

type reconciliation struct {
	session
	pool    Pool
	local   ipam.Endpoint
	record  record
	records []record
	log     hclog.Logger
	// want is the device, if the pool has one and the interface that it needs is there.
	want device
	// have is what the kernel has. Nil: not read.
	have *snapshot
	// used are the interfaces that routes go through.
	used   []string
	counts map[verb]int
	failed map[object]error
	first  error
	// overlap is why the pool gets no routes.
	overlap error
}

// ErrOverlap is a pool whose routes would cut this host off.
var ErrOverlap = errdefs.New(errdefs.Conflict, "subnets of a pool have an address that this host needs")

func (t *Table) begin(p Pool) (*reconciliation, error) {
	kept, err := t.widen(p)
	if err != nil {
		return nil, fmt.Errorf("pool %s: %w", p.Name, err)
	}
	all, err := t.records()
	if err != nil {
		return nil, err
	}
	s, err := t.kernel.open()
	if err != nil {
		return nil, err
	}
	return &reconciliation{
		session: s, pool: p, local: t.locals[p.Name], record: kept, records: all,
		log: t.o.Logger.With("pool", p.Name), counts: map[verb]int{}, failed: map[object]error{},
	}, nil
}

// prepare reads what there is, and makes the device of the pool what it should be.
func (r *reconciliation) prepare() error {
	have, err := r.list(r.record.Device)
	if err != nil {
		return err
	}
	r.have = have
	mtu, found := have.mtuOf(r.local.Address)
	if !found {
		return fmt.Errorf("pool %s: no interface of this host has the address %s", r.pool.Name, r.local.Address)
	}
	if !r.pool.Mode.HasVXLAN() {
		return nil
	}
	r.want = r.pool.device(r.local.Address, mtu)
	changes, err := planDevice(have, r.pool.Name, r.want)
	if err != nil || len(changes) == 0 {
		return err
	}
	for _, c := range changes {
		if err = r.try(c); err != nil {
			break
		}
	}
	again, listErr := r.list(r.record.Device)
	if listErr != nil {
		r.have = nil
		return listErr
	}
	r.have = again
	return err
}

func (r *reconciliation) try(c change) error {
	err := r.do(c)
	if err != nil {
		r.failed[c.object] = err
		if r.first == nil {
			r.first = err
		}
		return err
	}
	r.log.Debug("changed", "change", c.String())
	r.counts[c.verb]++
	return nil
}

// guard makes the guard of the pool's device. Without known sources it leaves one that is there.
func (r *reconciliation) guard(sources []netip.Addr) error {
	name := deviceName(r.pool.Name)
	have, isThere := r.have.guards[name]
	underlay := r.have.linkOf(r.local.Address)
	if underlay == nil || sources == nil && isThere {
		return nil
	}
	want := &guard{name, r.pool.Name, r.pool.VXLAN.Port, r.pool.VXLAN.ID, underlay.name, r.pool.Subnets, sources}
	if have == want.signature() {
		return nil
	}
	if err := r.do(change{replace, want}); err != nil {
		return err
	}
	r.counts[replace]++
	return nil
}

// sourcesOf are the addresses of hosts, each once.
func sourcesOf(targets []Target) []netip.Addr {
	sources := make([]netip.Addr, 0, len(targets))
	for _, t := range targets {
		sources = append(sources, t.Endpoint.Address)
	}
	slices.SortFunc(sources, netip.Addr.Compare)
	return slices.Compact(sources)
}

// apply makes the routes. The device may have an error, and be good enough.
func (r *reconciliation) apply(own []netip.Prefix, targets []Target, deviceErr error) Report {
	var report Report
	if r.pool.Mode.HasVXLAN() {
		report.Unguarded = r.guard(sourcesOf(targets))
	}
	c := chooser{pool: r.pool, own: own, local: r.local.Address, have: r.have, lookup: r.once()}
	picks := c.choose(targets)
	if c.overlap != "" {
		r.overlap = fmt.Errorf("%w: %s have %s: change the ranges of the pool %s, or the address", ErrOverlap, r.pool.Subnets, c.overlap, r.pool.Name)
	}
	l := r.have.link(deviceName(r.pool.Name))
	if r.pool.Mode.HasVXLAN() && (l == nil || !l.up || !l.isOurs(r.pool.Name)) {
		for i := range picks {
			if k := &picks[i]; k.isOverlay() {
				k.State, k.Reason = Failed, fmt.Sprintf("there is no VXLAN device: %v", deviceErr)
			}
		}
	}
	stale := func(e entry) bool { return r.record.has(e, r.records) }
	for _, c := range plan(r.have, goalOf(c.closed(), r.have, picks), stale) {
		_ = r.try(c) // the others are attempted, too
	}
	if !r.pool.Mode.HasVXLAN() && r.record.Device != "" {
		r.removeDevice()
	}
	report.Added, report.Replaced, report.Removed = r.counts[add], r.counts[replace], r.counts[remove]
	for _, k := range picks {
		r.judge(&k)
		r.used = append(r.used, k.Device)
		report.Routes = append(report.Routes, k.Route)
	}
	return report
}

// once remembers the hops to addresses: a node has several blocks.
func (r *reconciliation) once() func(netip.Addr) (hop, error) {
	type answer struct {
		hop
		err error
	}
	seen := map[netip.Addr]answer{}
	return func(a netip.Addr) (hop, error) {
		found, ok := seen[a]
		if !ok {
			found.hop, found.err = r.lookup(a)
			seen[a] = found
		}
		return found.hop, found.err
	}
}

// removeDevice removes that of a pool which had another mode.
func (r *reconciliation) removeDevice() {
	for i := range r.have.links {
		if l := &r.have.links[i]; l.isOurs(r.pool.Name) {
			_ = r.try(change{remove, device{name: l.name}}) // the caller returns the failure
		}
	}
	if name := deviceName(r.pool.Name); r.have.guards[name] != "" {
		_ = r.try(change{remove, &guard{device: name}}) // as above
	}
}

// judge sets the state of a target whose objects the kernel did not accept.
func (r *reconciliation) judge(k *pick) {
	if k.State != Installed {
		return
	}
	needs := []object{k.entry, k.neighbour, k.forward}
	i := slices.IndexFunc(needs, func(o object) bool { return r.failed[o] != nil })
	if i >= 0 {
		k.State, k.Reason = Failed, r.failed[needs[i]].Error()
	}
}

// failure is that of changes: the first, and how many more.
func (r *reconciliation) failure() error {
	switch n := len(r.failed); n {
	case 0:
		return nil
	case 1:
		return r.first
	default:
		return fmt.Errorf("%w, and %d more", r.first, n-1)
	}
}
