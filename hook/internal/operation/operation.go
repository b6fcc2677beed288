// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package operation is one call on one locked allocation: its lock, record and namespace, its calls of plugins, and the errors
// and observations of that. It knows none of the verbs.
package operation

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/containernetworking/cni/libcni"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/lastcheck"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/hook/internal/step"
	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/state"
)

// Env is what the operations of an engine have in common.
type Env struct {
	Config config.Config
	Store  *state.Store
	// LastChecks are what plugins that allocnet does not know have reported.
	LastChecks lastcheck.Outcomes
}

// NewEnv opens the records of an engine.
func NewEnv(c config.Config, open func(dir string) (*state.Store, error)) (*Env, error) {
	c = c.WithDefaults()
	if err := c.ValidateExecutor(); err != nil {
		return nil, err
	}
	store, err := open(c.StateDir)
	if err != nil {
		return nil, err
	}
	return &Env{Config: c, Store: store}, nil
}

// Operation is one call on one locked allocation.
type Operation struct {
	Config *config.Config
	// Host is that of Config, whose addresses are listed once.
	Host  kernel.Host
	Store *state.Store
	Lock  *state.Locked
	// Record is the allocation as it was when the lock was taken, then as
	// this operation changes it.
	Record state.Record
	// Hold is inherited by the plugins; see state.Locked.Hold.
	Hold *os.File
	// opened is what Namespace returns.
	opened openedNamespace
	Log    hclog.Logger
	// defaults is step.Work.Defaults.
	defaults sync.RWMutex
	// Reason is why the operation is done if no caller asked for it.
	Reason config.Reason
	// Notify is Request.Notify.
	Notify func(plan.Step)
}

// On returns an operation that changes nothing, because nothing is locked, on an allocation as it is recorded.
func (e *Env) On(r state.Record) *Operation { return NewOperation(&e.Config, e.Store, r) }

// NewOperation is On without an engine.
func NewOperation(c *config.Config, store *state.Store, r state.Record) *Operation {
	return &Operation{Config: c, Host: kernel.Once(c.Host), Store: store, Record: r, Log: c.Logger.With("allocation", r.Allocation.ID), Notify: func(plan.Step) {}}
}

// Begin locks an allocation and reads its record; an allocation without one
// gives an operation with an empty record.
func (e *Env) Begin(ctx context.Context, id string) (*Operation, error) {
	lock, err := e.Store.Lock(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.load(lock, id)
}

// Locked calls do with an allocation that is locked.
func (e *Env) Locked(ctx context.Context, id string, do func(o *Operation) error) error {
	o, err := e.Begin(ctx, id)
	if err != nil {
		return err
	}
	defer o.End()
	return do(o)
}

// TryBegin is Begin for an allocation that is not locked; otherwise the
// error is state.ErrLocked.
func (e *Env) TryBegin(id string) (*Operation, error) {
	lock, err := e.Store.TryLock(id)
	if err != nil {
		return nil, err
	}
	return e.load(lock, id)
}

func (e *Env) load(lock *state.Locked, id string) (*Operation, error) {
	o := e.On(state.Record{Allocation: state.Allocation{ID: id}})
	record, err := lock.Load()
	o.Lock, o.Record = lock, record
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		o.End()
		return nil, err
	}
	for _, d := range o.Record.Damaged {
		o.Log.Error("record is damaged", "path", d.Path, "line", d.Line, "error", d.Err)
	}
	o.Record.Allocation.ID = id
	if len(o.Record.Damaged) > 0 {
		for i := range o.Record.Attachments { // a damaged line may have said that ADD began
			o.Record.Attachments[i].Planned = false
		}
		if err := o.LoadFromCache(); err != nil {
			o.Log.Warn("nothing is loaded from libcni's cache", "error", err)
		}
	}
	return o, nil
}

// End ends the operation and unlocks the allocation.
func (o *Operation) End() {
	o.closeHold()
	o.CloseNamespace()
	o.Lock.Unlock()
}

// closeHold closes what plugins inherit.
func (o *Operation) closeHold() {
	if o.Hold != nil {
		_ = o.Hold.Close() // read only, nothing to lose
		o.Hold = nil
	}
}

// RuntimeConf is what libcni gets of an attachment, beside its conflist, with the path of the namespace.
func (o *Operation) RuntimeConf(a state.Attachment, list *libcni.NetworkConfigList, path string) *libcni.RuntimeConf {
	rt := &libcni.RuntimeConf{
		ContainerID:    a.ContainerID,
		NetNS:          path,
		IfName:         a.Interface,
		Args:           a.Args,
		CapabilityArgs: a.CapabilityArgs,
	}
	if onrecord.IsReattached(a) {
		onrecord.AskForFormer(rt, list, a)
	}
	return rt
}

// Failure returns an *Error of an attachment.
func (o *Operation) Failure(op string, a state.Attachment, attempts int, err error) error {
	return &Error{
		Op: op, Allocation: o.Record.Allocation.ID,
		Network: a.Network, Interface: a.Interface, Attempts: attempts, Err: err,
	}
}

// AttachmentLog is the log with the names of an attachment.
func (o *Operation) AttachmentLog(a state.Attachment) hclog.Logger {
	return o.Log.With("network", a.Network, "interface", a.Interface)
}

// Work is the allocation for steps.
func (o *Operation) Work() *step.Work {
	return &step.Work{
		Namespace: o.Namespace, Host: o.Host, Store: o.Store, Record: &o.Record, Defaults: &o.defaults,
		Write: o.Lock.Write, WriteAllocation: o.Lock.WriteAllocation, Cache: func(a state.Attachment) error { return o.Config.Cache().Write(a, o.Record.Allocation.Netns) }, FileOf: o.Config.FileOf, Log: o.Log,
		AnnounceAgain: o.Config.AnnounceAgain,
		ResolvConf:    o.Config.ResolvConf(o.Record.Allocation.ID), HostResolvConf: o.Config.HostResolvConf,
		DNS: func(r state.Record) (resolvconf.Config, error) {
			a, err := onrecord.Describe(r)
			if err != nil {
				return resolvconf.Config{}, err
			}
			return resolvconf.Config(a.DNS), nil
		},
		Fail: func(a state.Attachment, err error) error { return o.Failure("attach", a, a.Attempts, err) },
	}
}

// WorkIn is work for a namespace that is open.
func (o *Operation) WorkIn(ns kernel.Namespace) *step.Work {
	w := o.Work()
	w.Namespace = func() (kernel.Namespace, error) { return ns, nil }
	return w
}
