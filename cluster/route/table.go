// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/files"
)

// Protocol is the number of our routes' protocol: what the kernel calls rtm_protocol, and iproute2
// looks up in rt_protos.
const Protocol = 172

// Options are those of a table.
type Options struct {
	// Dir is where devices and routes are on record before they are made, so that what a killed
	// process leaves is found. Required.
	Dir string
	// Logger gets each change, as debug messages. Nil: none.
	Logger hclog.Logger
}

// Table keeps the routes of the network namespace of its caller. Its methods may be called at the
// same time.
type Table struct {
	o      Options
	kernel kernel

	mu sync.Mutex // held while the kernel's tables are read and changed
	// locals are the endpoints of this host, by pool.
	locals map[string]ipam.Endpoint

	watched sync.Mutex // held for moments; after mu
	// concerns are what events are compared with, by pool.
	concerns map[string]concern
}

// New returns a table. It does nothing yet.
func New(o Options) *Table { return newTable(o, host{}) }

func newTable(o Options, k kernel) *Table {
	o.Logger = cmp.Or(o.Logger, hclog.NewNullLogger())
	return &Table{o: o, kernel: k, locals: map[string]ipam.Endpoint{}, concerns: map[string]concern{}}
}

// Device makes or repairs the VXLAN device of a pool, and returns its MAC and MTU. In the mode routed
// there is no device: it returns no MAC, and the MTU of the interface that has the address.
// Call it before Apply, and again when local has changed.
func (t *Table) Device(p Pool, local ipam.Endpoint) (mac string, mtu int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.locals[p.Name] = local
	r, err := t.begin(p)
	if err != nil {
		return "", 0, err
	}
	defer r.close()
	if err := r.prepare(); err != nil {
		return "", 0, err
	}
	t.follow(r)
	if !p.Mode.HasVXLAN() {
		mtu, _ := r.have.mtuOf(local.Address)
		return "", mtu, nil
	}
	_ = r.guard(nil) // Apply reports it
	return r.want.mac, r.want.mtu, nil
}

// Apply makes the kernel's tables those of the targets. What is right is not touched. With an
// error the report has what could be done, and is empty if that is nothing.
func (t *Table) Apply(p Pool, own []netip.Prefix, targets []Target) (Report, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.locals[p.Name]; !ok {
		return Report{}, fmt.Errorf("pool %s: the address of this host is not known: call Device first", p.Name)
	}
	r, err := t.begin(p)
	if err != nil {
		return Report{}, err
	}
	defer r.close()
	deviceErr := r.prepare()
	if r.have == nil {
		return Report{}, deviceErr
	}
	report := r.apply(own, targets, deviceErr)
	t.follow(r)
	if err := errors.Join(deviceErr, r.overlap, r.failure()); err != nil {
		return report, err
	}
	want := r.record
	want.Subnets = p.Subnets
	return report, t.writeRecord(r.record, want)
}

// Remove removes all that the table has of a pool, by what is on record: with a damaged record, what is in the
// subnets that the caller knows.
func (t *Table) Remove(p Pool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, err := t.readRecord(p.Name)
	if err != nil {
		return err
	}
	if len(r.Subnets) == 0 {
		r.Subnets = p.Subnets
	}
	all, err := t.records()
	if err != nil {
		return err
	}
	has := func(e entry) bool { return r.has(e, all) }
	owned := func(l *link) bool { return l.isOurs(p.Name) }
	guards := func(device string) bool { return device == deviceName(p.Name) }
	if err := t.removeWhere(has, owned, guards); err != nil {
		return err
	}
	t.unfollow(p.Name)
	return files.Remove(t.recordPath(p.Name))
}

// RemoveAll removes all that is ours, on record or not.
func (t *Table) RemoveAll() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	records, err := t.records()
	if err != nil {
		return err
	}
	owned := func(l *link) bool {
		for _, r := range records {
			if l.isOurs(r.Pool) {
				return true
			}
		}
		return l.hasOurAlias()
	}
	if err := t.removeWhere(func(entry) bool { return true }, owned, func(string) bool { return true }); err != nil {
		return err
	}
	for _, r := range records {
		t.unfollow(r.Pool)
		err = errors.Join(err, files.Remove(t.recordPath(r.Pool)))
	}
	return err
}

// removeWhere removes routes, devices and guards of ours. All are attempted.
func (t *Table) removeWhere(has func(entry) bool, owned func(*link) bool, guards func(device string) bool) error {
	s, err := t.kernel.open()
	if err != nil {
		return err
	}
	defer s.close()
	have, err := s.list("")
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range have.routes {
		if e.ours && has(e) {
			errs = append(errs, s.do(change{remove, e}))
		}
	}
	for i := range have.links {
		if l := &have.links[i]; owned(l) {
			errs = append(errs, s.do(change{remove, device{name: l.name}}))
		}
	}
	for device := range have.guards {
		if guards(device) {
			errs = append(errs, s.do(change{remove, &guard{device: device}}))
		}
	}
	return errors.Join(errs...)
}
