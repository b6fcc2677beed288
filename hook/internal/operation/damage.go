// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// DamagedRecordError is an allocation whose record is damaged. The damaged lines are
// unknown, so the allocation counts as alive.
type DamagedRecordError struct {
	Allocation string
	Damaged    []state.Damaged
	// Reason says why the record could not be repaired; nil: repair was not attempted.
	Reason error
	// Lost is whether no attachment can be read, neither in the record nor in libcni's cache.
	Lost bool
}

func (e *DamagedRecordError) Error() string {
	places := make([]string, len(e.Damaged))
	for i, d := range e.Damaged {
		places[i] = d.String()
	}
	text := fmt.Sprintf("allocation %s: its record is damaged (%s)", e.Allocation, strings.Join(places, "; "))
	if e.Lost {
		return text + " and none of its attachments can be read: to remove what it left, once it has ended and its namespace is gone: allocnet cleanup " + e.Allocation + " --forget"
	}
	if e.Reason == nil {
		return text + ": to repair it: allocnet check --repair " + e.Allocation
	}
	return fmt.Sprintf("%s and cannot be repaired: %v: to remove the allocation: allocnet detach %s", text, e.Reason, e.Allocation)
}

func (e *DamagedRecordError) Unwrap() error { return e.Reason }

// Kind is that of package errdefs.
func (*DamagedRecordError) Kind() errdefs.Kind { return errdefs.Failed }

// RepairRecord is Engine.RepairRecord.
func (e *Env) RepairRecord(ctx context.Context, id string) error {
	return e.Locked(ctx, id, func(o *Operation) error {
		if !o.HasRecord() {
			return fmt.Errorf("allocation %s %w", id, state.ErrNotFound)
		}
		if len(o.Record.Damaged) > 0 && o.isDead() {
			return o.DamagedRecord(errors.New("its namespace is gone"))
		}
		return o.RepairRecord()
	})
}

// RepairRecord is RepairRecord within an operation. An allocation that is proven dead needs no
// repair, unless nothing tells what is to be removed.
func (o *Operation) RepairRecord() error {
	if o.IsLost() {
		return o.DamagedRecord(nil)
	}
	if !o.IsUnknown() {
		return nil
	}
	started := time.Now()
	err := o.Restore()
	for _, a := range o.Record.Attachments { // a damaged line may have completed it, or forgotten it before it was attached again
		if err == nil && (onrecord.IsInFlight(a) || a.Phase == state.Attached && a.Status == nil) {
			err = fmt.Errorf("the state of interface %s is unknown", a.Interface)
		}
	}
	if err == nil {
		err = o.Lock.Repair(o.Record)
	}
	if err != nil {
		return o.DamagedRecord(err)
	}
	o.Log.Info("repaired the record")
	o.Config.Report(config.Observation{Op: config.OpRepair, Allocation: o.Record.Allocation.ID, Identity: o.Record.Allocation.Identity, Took: time.Since(started)})
	o.Record.Damaged = nil
	return nil
}

// DamagedRecord is the *DamagedRecordError of the allocation; reason is why it could not be repaired.
func (o *Operation) DamagedRecord(reason error) error {
	return &DamagedRecordError{o.Record.Allocation.ID, o.Record.Damaged, reason, o.IsLost()}
}

// IsLost tells whether damage has left no attachment: what there is to remove is unknown, which is
// not nothing.
func (o *Operation) IsLost() bool {
	return len(o.Record.Damaged) > 0 && len(o.Record.Attachments) == 0
}

// IsUnknown tells whether the allocation may be alive or dead because of damage.
func (o *Operation) IsUnknown() bool { return len(o.Record.Damaged) > 0 && !o.isDead() }

// isDead tells whether the readable lines prove that the namespace is gone.
func (o *Operation) isDead() bool {
	past, err := o.Record.Allocation.IsOfEarlierBoot()
	if err != nil || past {
		return past
	}
	if o.Record.Allocation.Netns == "" {
		return false
	}
	_, err = o.Namespace()
	return errors.Is(err, netns.ErrMissing)
}

// LoadFromCache completes a record that is lost or damaged from the conflists of its
// attachments and from libcni's cache.
func (o *Operation) LoadFromCache() error {
	if len(o.Record.Attachments) > 0 && len(o.Record.Damaged) == 0 {
		return nil
	}
	cached, err := o.Config.Cache().Attachments(o.Record.Allocation.ID)
	if err != nil {
		return err
	}
	for _, c := range cached {
		o.loadAttachmentFromCache(c)
	}
	slices.SortStableFunc(o.Record.Attachments, state.ByIndex)
	for _, a := range o.Record.Attachments {
		loadAllocationFromCache(&o.Record, onrecord.ReadMarker(a.ConfList).Allocation)
	}
	return nil
}

// loadAttachmentFromCache adds what libcni's cache has of an attachment.
func (o *Operation) loadAttachmentFromCache(cached state.Attachment) {
	if o.Record.Allocation.Mode == "" {
		o.Record.Allocation.Mode = state.ModeUnknown
	}
	at := slices.IndexFunc(o.Record.Attachments, func(a state.Attachment) bool { return a.Interface == cached.Interface })
	if at < 0 {
		o.AttachmentLog(cached).Warn("no record; using libcni's cache")
		o.Record.Attachments = append(o.Record.Attachments, cached)
		return
	}
	// libcni caches a result when the whole chain has succeeded: the line that
	// recorded it is damaged.
	if a := &o.Record.Attachments[at]; a.Phase == state.Adding && cached.Result != nil {
		a.Phase, a.Result = state.Attached, cached.Result
	}
}

// loadAllocationFromCache takes the allocation from the marker of a conflist if no line
// has it.
func loadAllocationFromCache(r *state.Record, marked *state.Allocation) {
	if marked != nil && r.Allocation.Mode == state.ModeUnknown && marked.Mode.Valid() && marked.ID == r.Allocation.ID {
		r.Allocation = *marked
	}
}

// Restore completes the record from the namespace: its identity, and the statuses of
// attachments.
func (o *Operation) Restore() error {
	ns, err := o.Namespace()
	if err != nil {
		return err
	}
	interfaces, routes, err := kernel.Look(ns)
	if err != nil {
		return err
	}
	if o.Record.Allocation.NetnsID == "" {
		if !slices.ContainsFunc(o.Record.Attachments, func(a state.Attachment) bool { return onrecord.Shows(a, interfaces) }) {
			return fmt.Errorf("nothing proves that %s is its namespace", o.Record.Allocation.Netns)
		}
		o.Record.Allocation.NetnsID = ns.ID()
	}
	for i := range o.Record.Attachments {
		if err := restoreStatus(&o.Record.Attachments[i], interfaces, routes); err != nil {
			return err
		}
	}
	return nil
}

// restoreStatus inspects an attachment again whose status is lost.
func restoreStatus(a *state.Attachment, interfaces []netns.Interface, routes []netns.Route) error {
	if a.Phase != state.Attached || a.Status != nil || !onrecord.Shows(*a, interfaces) {
		return nil
	}
	ports, err := onrecord.DecodeMappings(a.CapabilityArgs["portMappings"])
	if err != nil {
		return err
	}
	a.Status, err = onrecord.EncodeStatus(*a, interfaces, routes, ports)
	return err
}
