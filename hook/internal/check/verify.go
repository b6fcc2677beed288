// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/repair"
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
	// lookShare is the part of the time that the first look has.
	lookShare = 1. / 2
)

// Verify is Engine.Verify.
func Verify(ctx context.Context, e *operation.Env, v Verification) error {
	first, stop := operation.Phase(ctx, lookShare, "CHECK")
	defer stop()
	seen, err := verifyOnce(first, e, v)
	if err != nil {
		if err := e.Config.Pause(ctx, repair.VerifyPause); err != nil {
			logUnknown(e, v, err)
			return nil
		}
		seen, err = verifyOnce(ctx, e, v)
	}
	complete(ctx, e, v, seen)
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
func complete(ctx context.Context, e *operation.Env, v Verification, seen verified) {
	if len(seen.succeeded) > 0 {
		recordSucceeded(e, v.ID, seen.succeeded)
	}
	if !seen.repairable {
		return
	}
	drifts, err := repair.Attachments(ctx, e, repair.Request{IDs: []string{v.ID}, LastChecks: true})
	for _, d := range drifts {
		e.Config.Logger.Info("CHECK has repaired a network", "allocation", v.ID, "network", d.Network, "interface", d.Interface, "missing", d.Missing, "repaired", d.Repaired)
		err = errors.Join(err, d.Err)
	}
	if err != nil {
		logUnknown(e, v, err)
	}
}

// recordSucceeded does so for an allocation that is not locked.
func recordSucceeded(e *operation.Env, id string, succeeded []state.Attachment) {
	o, err := e.TryBegin(id)
	if err != nil {
		return // the next CHECK does
	}
	defer o.End()
	repair.NoteSucceeded(o, succeeded)
}

func logUnknown(e *operation.Env, v Verification, why error) {
	e.Config.Logger.Warn("CHECK cannot tell whether the network is damaged, and passes", "allocation", v.ID, "error", why)
}

func verifyOnce(ctx context.Context, e *operation.Env, v Verification) (verified, error) {
	ctx, stop := context.WithTimeout(ctx, verifyLimit)
	defer stop()
	before, err := readUnlocked(e, v.ID)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		logUnknown(e, v, err)
		return verified{}, nil
	}
	seen, err := verifyRecord(ctx, e, v, before)
	if err == nil {
		return seen, nil
	}
	// A change meanwhile may be the cause of the damage that was seen.
	after, changed := readUnlocked(e, v.ID)
	if changed == nil && !reflect.DeepEqual(before, after) {
		changed = errors.New("the record has changed meanwhile")
	}
	if changed != nil && !errors.Is(changed, state.ErrNotFound) {
		logUnknown(e, v, changed)
		return verified{}, nil
	}
	return seen, err
}

// readUnlocked reads a record while nothing is in flight on it.
func readUnlocked(e *operation.Env, id string) (state.Record, error) {
	lock, err := e.Store.TryLock(id)
	if err != nil {
		return state.Record{}, err
	}
	defer lock.Unlock()
	return e.Store.Read(id)
}

func verifyRecord(ctx context.Context, e *operation.Env, v Verification, record state.Record) (verified, error) {
	set := onrecord.OfBatch(record.Attachments, onrecord.SetupBatch)
	if record.Allocation.Owner != v.Owner || len(set) == 0 {
		return verified{}, verifyUnrecorded(e, v)
	}
	record.Allocation.Netns = v.Netns // which may be another path to it
	o := e.On(record)
	defer o.CloseNamespace()
	ns, err := o.Namespace()
	if err != nil {
		return verified{}, classify(e, v, fmt.Errorf("allocation %s: %w", v.ID, err))
	}
	errs := []error{verifyComplete(e, v, o, set)}
	compared := repair.Compared(ctx, e, o, ns, func(a state.Attachment) bool { return a.Batch == onrecord.SetupBatch })
	seen := verified{succeeded: repair.NewlySucceeded(compared)}
	for _, p := range compared {
		seen.repairable = seen.repairable || len(p.Missing) > 0
		if p.Moved != "" {
			logUnknown(e, v, errors.New(p.Moved))
		}
		for _, err := range []error{p.Broken(), p.Err} {
			if err != nil {
				errs = append(errs, classify(e, v, o.Failure("check", *p.Attachment(), 1, err)))
			}
		}
	}
	return seen, errors.Join(errs...)
}

// verifyComplete returns that an attachment is not complete, unless a damaged record leaves that open.
func verifyComplete(e *operation.Env, v Verification, o *operation.Operation, set []state.Attachment) error {
	var errs []error
	for _, a := range set {
		switch {
		case onrecord.IsComplete(a):
		case len(o.Record.Damaged) > 0:
			logUnknown(e, v, o.Record.Damaged[0].Err)
		default:
			errs = append(errs, o.Failure("check", a, 1, inspect.NotComplete(a)))
		}
	}
	return errors.Join(errs...)
}

// verifyUnrecorded looks at an allocation of which no Setup is on record.
// Whether it ever was set up cannot be told, but it needs its interface.
func verifyUnrecorded(e *operation.Env, v Verification) error {
	ns, err := e.Config.Namespaces.Open(v.Netns)
	if err != nil {
		return classify(e, v, fmt.Errorf("allocation %s: %w", v.ID, err))
	}
	defer ns.Close() //nolint:errcheck // read only
	interfaces, err := ns.Interfaces()
	if err != nil {
		return classify(e, v, fmt.Errorf("allocation %s: %w", v.ID, err))
	}
	if !slices.ContainsFunc(interfaces, func(i netns.Interface) bool { return i.Name == v.Interface }) {
		return inspect.Damaged("allocation %s is not set up: %s has no interface %s", v.ID, v.Netns, v.Interface)
	}
	logUnknown(e, v, fmt.Errorf("no record says that %q set it up", v.Owner))
	return nil
}

// classify returns damage, and logs what is none.
func classify(e *operation.Env, v Verification, err error) error {
	if err == nil || inspect.IsDamage(err) {
		return err
	}
	logUnknown(e, v, err)
	return nil
}
