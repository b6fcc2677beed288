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

// Verify tells whether the attachments of Setup are damaged, for a runtime that tears
// down the allocation if they are. Damage is an error if two inspections show it. Other
// cases are logged, because they prove no damage: an allocation that is locked, a record
// that cannot be read, a plugin that hangs or is missing. Attachments of Extend are not
// checked.
//
// It works from the record alone, and neither waits for the allocation's lock
// nor keeps it while plugins run. Nothing is written.
func (e *Engine) Verify(ctx context.Context, v Verification) error {
	first, stop := phase(ctx, lookShare, "CHECK")
	defer stop()
	if err := e.verifyOnce(first, v); err == nil {
		return nil
	}
	if err := e.pause(ctx, verifyPause); err != nil {
		e.unknown(v, err)
		return nil
	}
	return e.verifyOnce(ctx, v)
}

func (e *Engine) unknown(v Verification, why error) {
	e.log.Warn("CHECK cannot tell whether the network is damaged, and passes", "allocation", v.ID, "error", why)
}

// verifyOnce returns the damage that it sees.
func (e *Engine) verifyOnce(ctx context.Context, v Verification) error {
	ctx, stop := context.WithTimeout(ctx, verifyLimit)
	defer stop()
	before, err := e.readUnlocked(v.ID)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		e.unknown(v, err)
		return nil
	}
	err = e.verifyRecord(ctx, v, before)
	if err == nil {
		return nil
	}
	// A change meanwhile may be the cause of the damage that was seen.
	after, changed := e.readUnlocked(v.ID)
	if changed == nil && !reflect.DeepEqual(before, after) {
		changed = errors.New("the record has changed meanwhile")
	}
	if changed != nil && !errors.Is(changed, state.ErrNotFound) {
		e.unknown(v, changed)
		return nil
	}
	return err
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
func (e *Engine) verifyRecord(ctx context.Context, v Verification, record state.Record) error {
	set := attachmentsOf(record.Attachments, setupBatch)
	if record.Allocation.Owner != v.Owner || len(set) == 0 {
		return e.verifyUnrecorded(v)
	}
	record.Allocation.Netns = v.Netns // which may be another path to it
	ns, err := e.openNamespace(record.Allocation)
	if err == nil {
		defer ns.Close() //nolint:errcheck // read only
	}
	var interfaces []netns.Interface
	if err == nil {
		interfaces, err = ns.Interfaces()
	}
	if err != nil {
		return e.classify(v, fmt.Errorf("allocation %s: %w", v.ID, err))
	}
	o := &operation{Engine: e, record: record, log: e.log.With("allocation", v.ID)}
	errs := make([]error, len(set))
	inOrder(ctx, len(set), func(int) []int { return nil }, func(i int) {
		if len(record.Damaged) > 0 && !isComplete(set[i]) {
			e.unknown(v, record.Damaged[0].Err)
			return
		}
		errs[i] = e.classify(v, o.check(ctx, set[i], interfaces).Err)
	})
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
		return damaged("allocation %s is not set up: %s has no interface %s", v.ID, v.Netns, v.Interface)
	}
	e.unknown(v, fmt.Errorf("no record says that %q set it up", v.Owner))
	return nil
}

// classify returns damage, and logs what is none.
func (e *Engine) classify(v Verification, err error) error {
	if err == nil || isDamage(err) {
		return err
	}
	e.unknown(v, err)
	return nil
}
