// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

// RepairRecord rewrites the damaged record of a live allocation from its readable lines,
// libcni's cache and the namespace, and keeps the damaged file. A record without damage
// is not changed. If something remains unknown, the error is a *DamagedRecordError and
// nothing is changed.
func (e *Engine) RepairRecord(ctx context.Context, id string) error {
	o, err := e.begin(ctx, id)
	if err != nil {
		return err
	}
	defer o.end()
	if !o.hasRecord() {
		return fmt.Errorf("allocation %s %w", id, state.ErrNotFound)
	}
	if len(o.record.Damaged) > 0 && o.isDead() {
		return o.damagedRecord(errors.New("its namespace is gone"))
	}
	return o.repairRecord()
}

// repairRecord is RepairRecord within an operation. An allocation that is proven dead needs no
// repair, unless nothing tells what is to be removed.
func (o *operation) repairRecord() error {
	if o.isLost() {
		return o.damagedRecord(nil)
	}
	if !o.isUnknown() {
		return nil
	}
	started := time.Now()
	err := o.restore()
	if err == nil {
		err = o.unfinished()
	}
	if err == nil {
		err = o.lock.Repair(o.record)
	}
	if err != nil {
		return o.damagedRecord(err)
	}
	o.log.Info("repaired the record")
	o.config.report(Observation{Op: OpRepair, Allocation: o.record.Allocation.ID, Identity: o.record.Allocation.Identity, Took: time.Since(started)})
	o.record.Damaged = nil
	return nil
}

func (o *operation) damagedRecord(reason error) error {
	return &DamagedRecordError{o.record.Allocation.ID, o.record.Damaged, reason, o.isLost()}
}

// isLost tells whether damage has left no attachment: what there is to remove is unknown, which is
// not nothing.
func (o *operation) isLost() bool {
	return len(o.record.Damaged) > 0 && len(o.record.Attachments) == 0
}

// isUnknown tells whether the allocation may be alive or dead because of damage.
func (o *operation) isUnknown() bool { return len(o.record.Damaged) > 0 && !o.isDead() }

// isDead tells whether the readable lines prove that the namespace is gone.
func (o *operation) isDead() bool {
	past, err := o.record.Allocation.IsOfEarlierBoot()
	if err != nil || past {
		return past
	}
	if o.record.Allocation.Netns == "" {
		return false
	}
	ns, err := o.namespace()
	if err == nil {
		_ = ns.Close() // only its existence matters
	}
	return errors.Is(err, netns.ErrMissing)
}

// loadFromCache completes a record that is lost or damaged from the conflists of its
// attachments and from libcni's cache.
func (o *operation) loadFromCache() error {
	if len(o.record.Attachments) > 0 && len(o.record.Damaged) == 0 {
		return nil
	}
	cached, err := o.config.cache().Attachments(o.record.Allocation.ID)
	if err != nil {
		return err
	}
	for _, c := range cached {
		o.loadAttachmentFromCache(c)
	}
	slices.SortStableFunc(o.record.Attachments, state.ByIndex)
	for _, a := range o.record.Attachments {
		o.loadAllocationFromCache(onrecord.ReadMarker(a.ConfList).Allocation)
	}
	return nil
}

// loadAttachmentFromCache adds what libcni's cache has of an attachment.
func (o *operation) loadAttachmentFromCache(cached state.Attachment) {
	if o.record.Allocation.Mode == "" {
		o.record.Allocation.Mode = state.ModeUnknown
	}
	at := slices.IndexFunc(o.record.Attachments, func(a state.Attachment) bool { return a.Interface == cached.Interface })
	if at < 0 {
		o.attachmentLog(cached).Warn("no record; using libcni's cache")
		o.record.Attachments = append(o.record.Attachments, cached)
		return
	}
	// libcni caches a result when the whole chain has succeeded: the line that
	// recorded it is damaged.
	if a := &o.record.Attachments[at]; a.Phase == state.Adding && cached.Result != nil {
		a.Phase, a.Result = state.Attached, cached.Result
	}
}

// loadAllocationFromCache takes the allocation from the marker of a conflist if no line
// has it.
func (o *operation) loadAllocationFromCache(marked *state.Allocation) {
	if marked != nil && o.record.Allocation.Mode == state.ModeUnknown && marked.Mode.Valid() && marked.ID == o.record.Allocation.ID {
		o.record.Allocation = *marked
	}
}

// restore completes the record from the namespace: its identity, and the statuses of
// attachments.
func (o *operation) restore() error {
	ns, err := o.namespace()
	if err != nil {
		return err
	}
	defer ns.Close() //nolint:errcheck // read only
	interfaces, err := ns.Interfaces()
	if err != nil {
		return err
	}
	if o.record.Allocation.NetnsID == "" {
		if !slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool { return onrecord.Shows(a, interfaces) }) {
			return fmt.Errorf("nothing proves that %s is its namespace", o.record.Allocation.Netns)
		}
		o.record.Allocation.NetnsID = ns.ID()
	}
	routes, err := ns.DefaultRoutes()
	if err != nil {
		return err
	}
	for i := range o.record.Attachments {
		if err := restoreStatus(&o.record.Attachments[i], interfaces, routes); err != nil {
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

// unfinished is an error if the readable lines have an attachment that is not complete:
// a damaged line may have completed it, or forgotten it before it was attached again.
func (o *operation) unfinished() error {
	for _, a := range o.record.Attachments {
		if inFlight(a) || a.Phase == state.Attached && a.Status == nil {
			return fmt.Errorf("the state of interface %s is unknown", a.Interface)
		}
	}
	return nil
}

// setDamageAside keeps the damaged record and writes the readable part anew, before a
// teardown.
func (o *operation) setDamageAside() {
	if len(o.record.Damaged) == 0 {
		return
	}
	if err := o.lock.Repair(o.record); err != nil { // such as a full disk, which must not stop a teardown
		o.log.Warn("the damaged record is not kept", "error", err)
	}
	o.record.Damaged = nil
}

// restoreForCheck completes a damaged record for CHECK, and reports the damage.
func (o *operation) restoreForCheck() error {
	if len(o.record.Damaged) == 0 {
		return nil
	}
	if err := o.restore(); err != nil {
		o.log.Warn("the damaged record is not completed", "error", err)
	}
	return o.damagedRecord(nil)
}

// refuseUnrecorded returns an error if libcni's cache has attachments of the
// allocation that exist in its namespace. New ones would have the same container IDs, and
// removing either would remove the plugins' objects of both.
func (o *operation) refuseUnrecorded() error {
	lost := newOperation(o.config, o.store, state.Record{Allocation: state.Allocation{ID: o.record.Allocation.ID}})
	defer lost.opened.close()
	if err := lost.loadFromCache(); err != nil {
		return err
	}
	if len(lost.record.Attachments) == 0 {
		return nil
	}
	ns, err := lost.namespace()
	if errors.Is(err, netns.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ns.Close() //nolint:errcheck // read only
	interfaces, err := ns.Interfaces()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(lost.record.Attachments, func(a state.Attachment) bool { return onrecord.Shows(a, interfaces) }) {
		id := o.record.Allocation.ID
		return errdefs.As(errdefs.Conflict, fmt.Errorf("allocation %s exists in %s, and its record is lost: to remove it: allocnet detach %s", id, lost.record.Allocation.Netns, id))
	}
	return nil
}
