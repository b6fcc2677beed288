// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Verification names the allocation that a runtime checks.
type Verification struct {
	// ID and Owner are those of the Setup.
	ID, Owner string
	// Netns is the path of the namespace that the allocation is in.
	Netns string
	// Interface is that of the allocation's main network.
	Interface string
}

const (
	// verifyLimit bounds one look. A runtime may check its allocations one after
	// the other.
	verifyLimit = 10 * time.Second
	// verifyPause is between the look that sees damage and the one that confirms
	// it.
	verifyPause = 500 * time.Millisecond
	// lookShare is the part of the time that the first look has.
	lookShare = 1. / 2
)

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
	first, stop := phase(ctx, lookShare, "CHECK")
	defer stop()
	seen, err := e.verifyOnce(first, v)
	if err != nil {
		if err := e.config.pause(ctx, verifyPause); err != nil {
			e.unknown(v, err)
			return nil
		}
		seen, err = e.verifyOnce(ctx, v)
	}
	e.complete(ctx, v, seen)
	return err
}

// verified is what an inspection has found beside damage.
type verified struct {
	// repairable is whether a repair makes something that is missing.
	repairable bool
	// succeeded are the attachments whose CHECK has passed for the first time.
	succeeded []state.Attachment
}

// complete repairs what a repair makes, and records whose CHECK has passed. An allocation that another call
// is changing is left to it.
func (e *Engine) complete(ctx context.Context, v Verification, seen verified) {
	if len(seen.succeeded) > 0 {
		e.noteSucceeded(v.ID, seen.succeeded)
	}
	if !seen.repairable {
		return
	}
	drifts, err := e.RepairAttachments(ctx, RepairRequest{IDs: []string{v.ID}, LastChecks: true})
	for _, d := range drifts {
		e.config.Logger.Info("CHECK has repaired a network", "allocation", v.ID, "network", d.Network, "interface", d.Interface, "missing", d.Missing, "repaired", d.Repaired)
		err = errors.Join(err, d.Err)
	}
	if err != nil {
		e.unknown(v, err)
	}
}

// noteSucceeded does so for an allocation that is not locked.
func (e *Engine) noteSucceeded(id string, succeeded []state.Attachment) {
	o, err := e.tryBegin(id)
	if err != nil {
		return // the next CHECK does
	}
	defer o.end()
	o.noteSucceeded(succeeded)
}

func (e *Engine) unknown(v Verification, why error) {
	e.config.Logger.Warn("CHECK cannot tell whether the network is damaged, and passes", "allocation", v.ID, "error", why)
}

// verifyOnce returns the damage that it sees.
func (e *Engine) verifyOnce(ctx context.Context, v Verification) (verified, error) {
	ctx, stop := context.WithTimeout(ctx, verifyLimit)
	defer stop()
	before, err := e.readUnlocked(v.ID)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		e.unknown(v, err)
		return verified{}, nil
	}
	seen, err := e.verifyRecord(ctx, v, before)
	if err == nil {
		return seen, nil
	}
	// A change meanwhile may be the cause of the damage that was seen.
	after, changed := e.readUnlocked(v.ID)
	if changed == nil && !reflect.DeepEqual(before, after) {
		changed = errors.New("the record has changed meanwhile")
	}
	if changed != nil && !errors.Is(changed, state.ErrNotFound) {
		e.unknown(v, changed)
		return verified{}, nil
	}
	return seen, err
}

// readUnlocked reads a record while nothing is in flight on it.
func (e *Engine) readUnlocked(id string) (state.Record, error) {
	lock, err := e.store.TryLock(id)
	if err != nil {
		return state.Record{}, err
	}
	defer lock.Unlock()
	return e.store.Read(id)
}

// verifyRecord returns the damage among what is on record.
func (e *Engine) verifyRecord(ctx context.Context, v Verification, record state.Record) (verified, error) {
	set := onrecord.OfBatch(record.Attachments, onrecord.SetupBatch)
	if record.Allocation.Owner != v.Owner || len(set) == 0 {
		return verified{}, e.verifyUnrecorded(v)
	}
	record.Allocation.Netns = v.Netns // which may be another path to it
	ns, err := e.config.openNamespace(record.Allocation)
	if err != nil {
		return verified{}, e.classify(v, fmt.Errorf("allocation %s: %w", v.ID, err))
	}
	defer ns.Close() //nolint:errcheck // read only
	o := e.on(record)
	errs := []error{e.verifyComplete(v, o, set)}
	compared := e.compared(ctx, o, ns, func(a state.Attachment) bool { return a.Batch == onrecord.SetupBatch })
	seen := verified{succeeded: newlySucceeded(compared)}
	for _, p := range compared {
		seen.repairable = seen.repairable || len(p.Missing) > 0
		if p.moved != "" {
			e.unknown(v, errors.New(p.moved))
		}
		for _, err := range []error{p.broken(), p.Err} {
			if err != nil {
				errs = append(errs, e.classify(v, o.failure("check", *p.attachment(), 1, err)))
			}
		}
	}
	return seen, errors.Join(errs...)
}

// verifyComplete returns that an attachment is not complete, unless a damaged record leaves that open.
func (e *Engine) verifyComplete(v Verification, o *operation, set []state.Attachment) error {
	var errs []error
	for _, a := range set {
		switch {
		case onrecord.IsComplete(a):
		case len(o.record.Damaged) > 0:
			e.unknown(v, o.record.Damaged[0].Err)
		default:
			errs = append(errs, o.failure("check", a, 1, inspect.NotComplete(a)))
		}
	}
	return errors.Join(errs...)
}

// verifyUnrecorded looks at an allocation of which no Setup is on record.
// Whether it ever was set up cannot be told, but it needs its interface.
func (e *Engine) verifyUnrecorded(v Verification) error {
	ns, err := e.config.Namespaces.Open(v.Netns)
	if err != nil {
		return e.classify(v, fmt.Errorf("allocation %s: %w", v.ID, err))
	}
	defer ns.Close() //nolint:errcheck // read only
	interfaces, err := ns.Interfaces()
	if err != nil {
		return e.classify(v, fmt.Errorf("allocation %s: %w", v.ID, err))
	}
	if !slices.ContainsFunc(interfaces, func(i netns.Interface) bool { return i.Name == v.Interface }) {
		return inspect.Damaged("allocation %s is not set up: %s has no interface %s", v.ID, v.Netns, v.Interface)
	}
	e.unknown(v, fmt.Errorf("no record says that %q set it up", v.Owner))
	return nil
}

// classify returns damage, and logs what is none.
func (e *Engine) classify(v Verification, err error) error {
	if err == nil || inspect.IsDamage(err) {
		return err
	}
	e.unknown(v, err)
	return nil
}
