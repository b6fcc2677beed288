// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"iter"
	"os"
	"slices"
	"sync"

	"github.com/containernetworking/cni/libcni"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook/internal/lastcheck"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// Engine is the Hook that attaches allocations to CNI networks.
type Engine struct {
	config Config
	store  *state.Store
	// leaks finds and removes leaks; tests replace it.
	leaks func(ctx context.Context, r GCRequest, live cleanup.Live) (*cleanup.Report, error)
	// lastcheck.Outcomes are what plugins that allocnet does not know have said.
	lastChecks lastcheck.Outcomes
}

var _ Hook = (*Engine)(nil)

// NewEngine opens the state directory, making it when it is missing.
func NewEngine(c Config) (*Engine, error) {
	return newEngine(c, state.Open)
}

// NewReader returns an engine for Status, List and Resolve, which needs no rights
// beyond reading. It makes no state directory.
func NewReader(c Config) (*Engine, error) {
	return newEngine(c, state.OpenReadOnly)
}

func newEngine(c Config, open func(dir string) (*state.Store, error)) (*Engine, error) {
	c = c.withDefaults()
	if err := c.validateExecutor(); err != nil {
		return nil, err
	}
	store, err := open(c.StateDir)
	if err != nil {
		return nil, err
	}
	e := &Engine{config: c, store: store}
	e.leaks = e.scanLeaks
	return e, nil
}

// Status returns the allocation as recorded.
func (e *Engine) Status(_ context.Context, id string) (*Allocation, error) {
	record, err := e.store.Read(id)
	if err != nil {
		return nil, err
	}
	return e.describe(record)
}

// Resolve returns the recorded allocation that has the ID, or else the only one whose
// ID begins with it. The error is state.ErrNotFound or a *state.AmbiguousIDError.
func (e *Engine) Resolve(id string) (string, error) { return e.store.Resolve(id) }

// describe is describe of a record completed, where it is damaged, from libcni's
// cache.
func (e *Engine) describe(r state.Record) (*Allocation, error) {
	if len(r.Damaged) > 0 {
		o := e.on(r)
		if err := o.loadFromCache(); err != nil {
			return nil, err
		}
		r = o.record
	}
	return describe(r)
}

// List yields every recorded allocation, in the order of their IDs. One that
// cannot be read yields a *state.UnreadableError, and the rest still follow.
func (e *Engine) List(ctx context.Context) iter.Seq2[*Allocation, error] {
	return func(yield func(*Allocation, error) bool) {
		for record, err := range e.store.List(ctx) {
			if err != nil {
				if !yield(nil, err) {
					return
				}
				continue
			}
			a, err := e.describe(record)
			if err != nil {
				err = &state.UnreadableError{ID: record.Allocation.ID, Err: err}
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

// operation is one call on one locked allocation.
type operation struct {
	config *Config
	store  *state.Store
	lock   *state.Locked
	// record is the allocation as it was when the lock was taken, then as
	// this operation changes it.
	record state.Record
	// hold is inherited by the plugins; see state.Locked.Hold.
	hold *os.File
	// opened is what namespace returns.
	opened openedNamespace
	log    hclog.Logger
	// defaults is step.Work.Defaults.
	defaults sync.RWMutex
	// reason is why the operation is done if no caller asked for it.
	reason Reason
	// notify is Request.Notify.
	notify func(Step)
}

// on returns an operation that changes nothing, because nothing is locked, on an allocation as it is recorded.
func (e *Engine) on(r state.Record) *operation { return newOperation(&e.config, e.store, r) }

func newOperation(c *Config, store *state.Store, r state.Record) *operation {
	return &operation{config: c, store: store, record: r, log: c.Logger.With("allocation", r.Allocation.ID), notify: func(Step) {}}
}

// begin locks an allocation and reads its record; an allocation without one
// gives an operation with an empty record.
func (e *Engine) begin(ctx context.Context, id string) (*operation, error) {
	lock, err := e.store.Lock(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.load(lock, id)
}

// beginToAttach is begin for a request, after what has to be done once in a boot.
func (e *Engine) beginToAttach(ctx context.Context, r Request) (*operation, error) {
	e.recoverBoot(ctx)
	o, err := e.begin(ctx, r.ID)
	if err == nil && r.Notify != nil {
		o.notify = r.Notify
	}
	return o, err
}

// tryBegin is begin for an allocation that is not locked; otherwise the
// error is state.ErrLocked.
func (e *Engine) tryBegin(id string) (*operation, error) {
	lock, err := e.store.TryLock(id)
	if err != nil {
		return nil, err
	}
	return e.load(lock, id)
}

func (e *Engine) load(lock *state.Locked, id string) (*operation, error) {
	o := e.on(state.Record{Allocation: state.Allocation{ID: id}})
	record, err := lock.Load()
	o.lock, o.record = lock, record
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		o.end()
		return nil, err
	}
	for _, d := range o.record.Damaged {
		o.log.Error("record is damaged", "path", d.Path, "line", d.Line, "error", d.Err)
	}
	o.record.Allocation.ID = id
	if len(o.record.Damaged) > 0 {
		for i := range o.record.Attachments { // a damaged line may have said that ADD began
			o.record.Attachments[i].Planned = false
		}
		if err := o.loadFromCache(); err != nil {
			o.log.Warn("nothing is loaded from libcni's cache", "error", err)
		}
	}
	return o, nil
}

func (o *operation) end() {
	o.closeHold()
	o.opened.close()
	o.lock.Unlock()
}

// closeHold closes what plugins inherit.
func (o *operation) closeHold() {
	if o.hold != nil {
		_ = o.hold.Close() // read only, nothing to lose
		o.hold = nil
	}
}

func (c Config) pluginDirs(a state.Attachment) []string {
	return slices.Concat(a.PluginDirs, c.PluginDirs)
}

func (o *operation) runtimeConf(a state.Attachment, path string) *libcni.RuntimeConf {
	rt := &libcni.RuntimeConf{
		ContainerID:    a.ContainerID,
		NetNS:          path,
		IfName:         a.Interface,
		Args:           a.Args,
		CapabilityArgs: a.CapabilityArgs,
	}
	if onrecord.IsReattached(a) {
		onrecord.AskForFormer(rt, a)
	}
	return rt
}

func (o *operation) failure(op string, a state.Attachment, attempts int, err error) error {
	return &Error{
		Op: op, Allocation: o.record.Allocation.ID,
		Network: a.Network, Interface: a.Interface, Attempts: attempts, Err: err,
	}
}

func (o *operation) attachmentLog(a state.Attachment) hclog.Logger {
	return o.log.With("network", a.Network, "interface", a.Interface)
}
