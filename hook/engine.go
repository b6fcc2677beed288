// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"iter"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/attach"
	"github.com/allocnet/allocnet/hook/internal/check"
	"github.com/allocnet/allocnet/hook/internal/lease"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/remove"
	"github.com/allocnet/allocnet/hook/internal/repair"
	"github.com/allocnet/allocnet/state"
)

// Engine is the Hook that attaches allocations to CNI networks.
type Engine struct {
	env *operation.Env
	// leaks finds and removes leaks; tests replace it.
	leaks remove.Leaks
}

var _ Hook = (*Engine)(nil)

// NewEngine opens the state directory, making it when it is missing.
func NewEngine(c Config) (*Engine, error) { return newEngine(c, state.Open) }

// NewReader returns an engine for Status, List and Resolve, which needs no rights
// beyond reading. It makes no state directory.
func NewReader(c Config) (*Engine, error) { return newEngine(c, state.OpenReadOnly) }

func newEngine(c Config, open func(dir string) (*state.Store, error)) (*Engine, error) {
	env, err := operation.NewEnv(c, open)
	if err != nil {
		return nil, err
	}
	leaks := func(ctx context.Context, r GCRequest, live cleanup.Live) (*cleanup.Report, error) {
		return remove.ScanLeaks(ctx, env, r, live)
	}
	return &Engine{env, leaks}, nil
}

// Setup attaches the allocation as the request says; see Hook.
func (e *Engine) Setup(ctx context.Context, r Request) (*Allocation, error) {
	return attach.Setup(ctx, e.env, r)
}

// SetupOrExtend is Setup, and Extend if an allocation is set up with another request and
// this one names neither a primary nor a namespace.
func (e *Engine) SetupOrExtend(ctx context.Context, r Request) (*Allocation, error) {
	return attach.SetupOrExtend(ctx, e.env, r)
}

// Extend attaches an existing allocation to further networks, all of them or none, and
// returns the allocation with them. Its other attachments are not touched. With
// Request.Netns the allocation needs no record: another runtime made the namespace and
// its primary network. When the namespace on record is gone and Netns is another one,
// the recorded attachments are torn down first.
//
// Networks without an interface get the first free net<n>. Repeated with the
// same request it returns the existing attachments, so a second attachment to one
// network needs another interface name. Calls for one allocation wait for each other.
//
// The default route stays where it is unless a network asks for it.
func (e *Engine) Extend(ctx context.Context, r Request) (*Allocation, error) {
	return attach.Extend(ctx, e.env, r)
}

// Teardown removes every attachment of the allocation; see Hook.
func (e *Engine) Teardown(ctx context.Context, id string) error {
	return remove.Teardown(ctx, e.env, id)
}

// TeardownOwned is Teardown of an allocation that is not another owner's (Request.Owner). It tells whether it is not.
func (e *Engine) TeardownOwned(ctx context.Context, id, owner string) (owned bool, err error) {
	return remove.TeardownOwned(ctx, e.env, id, owner)
}

// TearDownDead is Teardown of a dead allocation. One that is set up in an existing
// namespace is ErrAlive, and so is one with a damaged record, unless its readable lines
// prove that the namespace is gone.
func (e *Engine) TearDownDead(ctx context.Context, id string) error {
	return remove.TearDownDead(ctx, e.env, id)
}

// Forget is TearDownDead for leftovers that nothing can remove: the record goes also if an object of
// it cannot be removed, or no attachment of it can be read. A damaged file is kept. An allocation that
// is not dead is refused, in the same moment: it may have been set up since the caller looked.
func (e *Engine) Forget(ctx context.Context, id string) error { return remove.Forget(ctx, e.env, id) }

// Detach removes one attachment of an allocation that stays. What cannot be
// removed stays on record as pending, and the next Detach, Extend, GC or Teardown
// retries it. The primary, and the last of what Setup attached, go with
// Teardown only. An interface that is not attached, so also a second call, is a
// *NotAttachedError; an allocation that is not on record is state.ErrNotFound.
func (e *Engine) Detach(ctx context.Context, id, iface string) error {
	return remove.Detach(ctx, e.env, id, iface)
}

// Release removes all that was attached for a task. An unknown allocation, a
// task without attachments and a missing namespace are not errors, nor is a
// second call.
func (e *Engine) Release(ctx context.Context, id, task string) error {
	return remove.Release(ctx, e.env, id, task)
}

// GC garbage-collects allocations; see Hook. It goes on past failures
// and joins them.
func (e *Engine) GC(ctx context.Context, r GCRequest) (*Collected, error) {
	return remove.GC(ctx, e.env, r, e.leaks)
}

// RemoveNetwork removes a network that nothing uses, and what it has left on the host; with dryRun it tells what that is. An
// attachment, a lease or a network that names it is an error, and nothing is removed. It can be repeated after a kill.
func (e *Engine) RemoveNetwork(ctx context.Context, name string, dryRun bool) (*RemovedNetwork, error) {
	return remove.Network(ctx, e.env, name, dryRun)
}

// Collector returns what finds and removes leaks, with the records, networks and
// libcni's cache of the engine.
func (e *Engine) Collector() *cleanup.Collector { return remove.Collector(e.env, "") }

// RetryDue tells whether RetryPending has work: an unfinished teardown is due for a
// retry, or allocations of an earlier boot are on record. It runs no plugin and waits for
// no lock.
func (e *Engine) RetryDue() bool { return remove.RetryDue(e.env) }

// RetryPending retries the unfinished teardowns that are due. A plugin that hangs keeps
// it for minutes, so call it while no other caller waits: Setup and Teardown leave it to
// the program around them. It does nothing while another process does the same.
func (e *Engine) RetryPending(ctx context.Context) error { return remove.RetryPending(ctx, e.env) }

// RepairAttachments compares attachments with the host and their namespaces, and makes what is
// missing, as the mode says. What is there stays as it is, so that established connections
// survive. The result has the attachments that lacked something, and the allocations that were
// not looked at; those with nothing to say are left out. The error is one of the whole call.
//
// What an attachment has to have is what its record says: nothing in its namespace, which its
// tasks may change, leads to a change of what belongs to another one.
func (e *Engine) RepairAttachments(ctx context.Context, r RepairRequest) ([]Drift, error) {
	return repair.Attachments(ctx, e.env, r)
}

// RepairRecord rewrites the damaged record of a live allocation from its readable lines,
// libcni's cache and the namespace, and keeps the damaged file. A record without damage
// is not changed. If something remains unknown, the error is a *DamagedRecordError and
// nothing is changed.
func (e *Engine) RepairRecord(ctx context.Context, id string) error {
	return e.env.RepairRecord(ctx, id)
}

// Check examines every attachment; see Hook.
func (e *Engine) Check(ctx context.Context, id string) ([]Checked, error) {
	return check.Check(ctx, e.env, id)
}

// CheckUnknown runs CHECK of attachments whose plugins allocnet does not know, and keeps the
// outcomes for RepairAttachments. An allocation that another call is changing is left out.
func (e *Engine) CheckUnknown(ctx context.Context, r CheckRequest) error {
	return check.Unknown(ctx, e.env, r)
}

// Verify tells whether the attachments of Setup are broken, for a runtime that tears
// down the allocation if they are. What a repair can make is made, and is no error. What is broken is an
// error if two inspections show it. Other
// cases are logged, because they prove no damage: an allocation that is locked, a record
// that cannot be read, a plugin that hangs or is missing, or whose CHECK has never passed. Attachments of
// Extend are not checked.
//
// It works from the record alone, and neither waits for the allocation's lock
// nor keeps it while plugins run.
func (e *Engine) Verify(ctx context.Context, v Verification) error {
	return check.Verify(ctx, e.env, v)
}

// Inspect compares the attachments that are attached with the namespace, as Check does,
// without executing plugins or waiting for the allocation's lock. It is for callers that look at
// all allocations of a host, and finds what is wrong inside the namespace only. The error is
// about the allocation as a whole: a *DamageError, or why that cannot be told now.
func (e *Engine) Inspect(_ context.Context, id string) ([]Checked, error) {
	return check.Inspect(e.env, id)
}

// Current returns an allocation as it is now: what its attachments lack is looked for in the namespace. It
// runs no plugin and waits for no lock. Where it cannot be told, as without root or in a container, the
// allocation is as it was recorded.
func (e *Engine) Current(a *Allocation) *Allocation { return check.Current(e.env, a) }

// Details returns those of each attachment of an allocation. It changes nothing, waits for no lock
// of the allocation, and runs no plugin; programs that list the host's rules are run.
func (e *Engine) Details(ctx context.Context, id string) ([]Details, error) {
	return check.Describe(ctx, e.env, id)
}

// Isolation returns what keeps attachments apart.
func (e *Engine) Isolation() Isolation { return Isolation{e.env} }

// KeepLeases extends the leases of DHCP that are on record until ctx ends, and has namespaces be as their leases are. While one process
// of the host does so, all ask for leases.
func (e *Engine) KeepLeases(ctx context.Context) { lease.Keep(ctx, e.env) }

// Catalog returns the networks that can be attached now; see Config.
func (e *Engine) Catalog() (*cniconf.Catalog, error) { return e.env.Config.Catalog() }

// Ready asks a network's plugins whether they could serve an ADD (CNI 1.1,
// STATUS). The error is the first that a plugin gives, with its code, or
// ErrNoStatus below version 1.1.0; that of cniconf.Network.CheckRouted comes before.
func (e *Engine) Ready(ctx context.Context, n *cniconf.Network) error {
	return check.Ready(ctx, e.env, n)
}

// Status returns the allocation as recorded.
func (e *Engine) Status(_ context.Context, id string) (*Allocation, error) {
	record, err := e.env.Store.Read(id)
	if err != nil {
		return nil, err
	}
	return describe(e.env, record)
}

// OpenNamespace opens the network namespace of an allocation, and returns a path that leads to it until it is closed, whatever is at
// its own path by then. The error is netns.ErrMissing if it is gone.
func (e *Engine) OpenNamespace(id string) (path string, closeNamespace func() error, err error) {
	record, err := e.env.Store.Read(id)
	if err != nil {
		return "", nil, err
	}
	ns, err := e.env.Config.OpenNamespace(record.Allocation)
	if err != nil {
		return "", nil, fmt.Errorf("allocation %s: %w", id, err)
	}
	return ns.Handle(), ns.Close, nil
}

// Resolve returns the recorded allocation that has the ID, or else the only one whose
// ID begins with it. The error is state.ErrNotFound or a *state.AmbiguousIDError.
func (e *Engine) Resolve(id string) (string, error) { return e.env.Store.Resolve(id) }

// List yields every recorded allocation, in the order of their IDs. One that
// cannot be read yields a *state.UnreadableError, and the rest still follow.
func (e *Engine) List(ctx context.Context) iter.Seq2[*Allocation, error] {
	return func(yield func(*Allocation, error) bool) {
		for record, err := range e.env.Store.List(ctx) {
			if err != nil {
				if !yield(nil, err) {
					return
				}
				continue
			}
			a, err := describe(e.env, record)
			if err != nil {
				err = &state.UnreadableError{ID: record.Allocation.ID, Err: err}
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

// describe describes a record that is completed, where it is damaged, from libcni's cache.
func describe(e *operation.Env, r state.Record) (*Allocation, error) {
	if len(r.Damaged) > 0 {
		o := e.On(r)
		if err := o.LoadFromCache(); err != nil {
			return nil, err
		}
		r = o.Record
	}
	return onrecord.Describe(r)
}
