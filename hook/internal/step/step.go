// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package step is what allocnet itself does for attachments beside their plugins: each step is a file, and a line of the table.
// The engine runs the table, and knows no step by name. Before a step makes anything, it is on record what that is: in fields of
// state.Attachment, which the plan or the step sets.
package step

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"github.com/containernetworking/cni/libcni"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/state"
)

// step is what is done for one thing, at each moment of an attachment. A nil function has nothing to do then.
type step struct {
	// Prepared is called before ADD of the attachments of a call.
	Prepared func(w *Work, added []state.Attachment) error
	// Around calls add, which runs ADD.
	Around func(ctx context.Context, w *Work, c Call, add func() error) error
	// Judge is called with the error of ADD, or nil, and returns what it means.
	Judge func(w *Work, c Call, err error) error
	// Result refuses what ADD has reported.
	Result func(w *Work, c Call) error
	// Added is called after ADD of an attachment, also when it is attached again.
	Added func(w *Work, a *state.Attachment) error
	// Completed is called when all attachments of a call have been added.
	Completed func(w *Work, a *state.Attachment) error
	// Finished is called after that of all steps.
	Finished func(w *Work, p *plan.Plan) error
	// Awaited is called after that, and waits until an attachment has what comes to it from elsewhere.
	Awaited func(ctx context.Context, w *Work, a *state.Attachment) error
	// Restored is called in place of these when an attachment is attached again.
	Restored func(w *Work, a *state.Attachment) error
	// Kept is called when attachments are complete, and before DEL of those that are removed; the others are kept.
	Kept func(w *Work, removed []state.Attachment) error
	// Ended is called before a namespace that Setup made is removed.
	Ended func(w *Work) error
	// Undo is called before DEL, and logs what it cannot do: nothing of it keeps an attachment.
	Undo func(ctx context.Context, w *Work, a state.Attachment)
	// Removed is called when attachments have been removed and others may be left, also after an error.
	Removed func(w *Work)
	// Lacks compares an attachment with its record.
	Lacks func(ctx context.Context, w *Work, a state.Attachment) ([]Lack, error)
}

// table has all steps in the order in which they are done. Before DEL they are undone in reverse.
var table = []step{forwarding, loopback, bridgeMTU, bridges, withoutIPv6, ipv6Off, innerMasters, forceAddress, assigned, portFamilies, acceptRA, strictARP, parameters, defaultRoutes, sourceRouting, resolvConf, announce}

// Lack is something that is missing.
type Lack struct {
	// What is missing, in words.
	What string
	// Make makes it. Nil: what makes another lack makes this one, too.
	Make func() error
}

// Call is one ADD.
type Call struct {
	Attachment state.Attachment
	// List is what plugins get of Recorded, the conflist on record.
	List, Recorded *libcni.NetworkConfigList
	// InProcess is whether no plugin is executed.
	InProcess bool
}

// Work is what steps work on: an allocation.
type Work struct {
	// Namespace returns that of the allocation, which stays open; the error is netns.ErrMissing if it is gone.
	Namespace func() (kernel.Namespace, error)
	Host      kernel.Host
	Store     *state.Store
	Record    *state.Record
	// Defaults is held while ADD runs in the namespace, and alone while what the namespace gives new interfaces is another than before.
	Defaults *sync.RWMutex
	// Write records attachments.
	Write func(...state.Attachment) error
	// WriteAllocation records the allocation.
	WriteAllocation func(state.Allocation) error
	// Cache writes an attachment to libcni's cache.
	Cache func(state.Attachment) error
	// Fail returns the failure to attach an attachment.
	Fail func(a state.Attachment, err error) error
	// DNS returns what is selected of the DNS of the attachments of a record.
	DNS func(state.Record) (resolvconf.Config, error)
	// AnnounceAgain announces addresses some times more, after this call.
	AnnounceAgain func(netns, iface string, addresses []netip.Addr)
	// ResolvConf is the file of a new namespace, and HostResolvConf are those of the host.
	ResolvConf     resolvconf.File
	HostResolvConf []string
	// FileOf returns the file of a network for messages.
	FileOf func(network string) string
	Log    hclog.Logger
}

func (w *Work) log(a state.Attachment) hclog.Logger {
	return w.Log.With("network", a.Network, "interface", a.Interface)
}

// Prepare prepares a namespace for attachments.
func (w *Work) Prepare(added []state.Attachment) error {
	return each(w, added, func(s step) func(*Work, []state.Attachment) error { return s.Prepared })
}

// Add runs ADD, and says what its error means.
func (w *Work) Add(ctx context.Context, c Call, add func() error) error {
	do := func() error {
		err := add()
		for _, s := range table {
			if s.Judge != nil {
				err = s.Judge(w, c, err)
			}
		}
		return err
	}
	for _, s := range slices.Backward(table) {
		if within := do; s.Around != nil {
			do = func() error { return s.Around(ctx, w, c, within) }
		}
	}
	return do()
}

// CheckResult refuses what ADD has reported of an attachment, which has that by now.
func (w *Work) CheckResult(c Call) error {
	return each(w, c, func(s step) func(*Work, Call) error { return s.Result })
}

// Added does what follows ADD of an attachment.
func (w *Work) Added(a *state.Attachment) error {
	if err := each(w, a, func(s step) func(*Work, *state.Attachment) error { return s.Added }); err != nil {
		return w.Fail(*a, err)
	}
	return nil
}

// Finish does what follows ADD of all attachments of a plan.
func (w *Work) Finish(ctx context.Context, p *plan.Plan) error {
	for _, added := range p.Added {
		if err := each(w, added.Attachment, func(s step) func(*Work, *state.Attachment) error { return s.Completed }); err != nil {
			return w.Fail(*added.Attachment, err)
		}
	}
	if err := each(w, p, func(s step) func(*Work, *plan.Plan) error { return s.Finished }); err != nil {
		return err
	}
	for _, added := range p.Added {
		if err := w.await(ctx, added.Attachment); err != nil {
			return w.Fail(*added.Attachment, err)
		}
	}
	return nil
}

func (w *Work) await(ctx context.Context, a *state.Attachment) error {
	for _, s := range table {
		if s.Awaited != nil {
			if err := s.Awaited(ctx, w, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Restore does both when an attachment is attached again.
func (w *Work) Restore(a *state.Attachment) error {
	if err := w.Added(a); err != nil {
		return err
	}
	return each(w, a, func(s step) func(*Work, *state.Attachment) error { return s.Restored })
}

// each calls what the steps do at a moment, until one fails.
func each[T any](w *Work, of T, moment func(step) func(*Work, T) error) error {
	for _, s := range table {
		if do := moment(s); do != nil {
			if err := do(w, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// Keep does what follows a change of the attachments, of which some are removed.
func (w *Work) Keep(removed []state.Attachment) error {
	return each(w, removed, func(s step) func(*Work, []state.Attachment) error { return s.Kept })
}

// End does what precedes the removal of a namespace that Setup made.
func (w *Work) End() error {
	for _, s := range table {
		if s.Ended != nil {
			if err := s.Ended(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// Undo undoes before DEL what was done for an attachment.
func (w *Work) Undo(ctx context.Context, a state.Attachment) {
	for _, s := range slices.Backward(table) {
		if s.Undo != nil {
			s.Undo(ctx, w, a)
		}
	}
}

// Removed does what follows the removal of attachments.
func (w *Work) Removed() {
	for _, s := range table {
		if s.Removed != nil {
			s.Removed(w)
		}
	}
}

// Lacks returns what is missing of what was done for an attachment. The error joins those of steps that cannot tell.
func (w *Work) Lacks(ctx context.Context, a state.Attachment) ([]Lack, error) {
	var all []Lack
	var errs []error
	for _, s := range table {
		if s.Lacks != nil {
			lacks, err := s.Lacks(ctx, w, a)
			all, errs = append(all, lacks...), append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}
