// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/go-cni"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// DamagedRecordError is an allocation whose record is damaged. What the damage said is
// unknown, so the allocation counts as living.
type DamagedRecordError struct {
	Allocation string
	Damaged    []state.Damaged
	// Reason says why the record could not be repaired; nil: that was not tried.
	Reason error
}

func (e *DamagedRecordError) Error() string {
	places := make([]string, len(e.Damaged))
	for i, d := range e.Damaged {
		places[i] = d.String()
	}
	text := fmt.Sprintf("allocation %s: its record is damaged (%s)", e.Allocation, strings.Join(places, "; "))
	if e.Reason == nil {
		return text + ": to repair it: allocnet check --repair " + e.Allocation
	}
	return fmt.Sprintf("%s and cannot be repaired: %v: to remove the allocation: allocnet detach %s", text, e.Reason, e.Allocation)
}

func (e *DamagedRecordError) Unwrap() error { return e.Reason }

// Kind is that of package errdefs.
func (*DamagedRecordError) Kind() errdefs.Kind { return errdefs.Failed }

// Repair writes the damaged record of a living allocation anew, from the parts
// that can be read, libcni's cache and the namespace. The damaged file is kept. A
// record without damage is left as it is; where something stays unknown the error
// is a *DamagedRecordError, and nothing is changed.
func (e *Engine) Repair(ctx context.Context, id string) error {
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
	return o.repair()
}

// repair is Repair within an operation. An allocation that is proven dead needs
// none.
func (o *operation) repair() error {
	if !o.isUnknown() {
		return nil
	}
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
	o.record.Damaged = nil
	return nil
}

func (o *operation) damagedRecord(reason error) error {
	return &DamagedRecordError{o.record.Allocation.ID, o.record.Damaged, reason}
}

// isUnknown tells whether damage leaves open whether the allocation lives.
func (o *operation) isUnknown() bool { return len(o.record.Damaged) > 0 && !o.isDead() }

// isDead tells whether what can be read proves that the namespace is gone.
func (o *operation) isDead() bool {
	earlier, err := o.record.Allocation.IsOfEarlierBoot()
	if err != nil || earlier {
		return earlier
	}
	if o.record.Allocation.Netns == "" {
		return false
	}
	ns, err := o.namespace()
	if err == nil {
		_ = ns.Close() // only looked at
	}
	return errors.Is(err, netns.ErrMissing)
}

// loadFromCache completes a record that is lost or damaged from the conflists of its
// attachments and from libcni's cache.
func (o *operation) loadFromCache() error {
	if len(o.record.Attachments) > 0 && len(o.record.Damaged) == 0 {
		return nil
	}
	cached, err := o.cached()
	if err != nil {
		return err
	}
	for _, c := range cached {
		o.loadAttachmentFromCache(c)
	}
	slices.SortStableFunc(o.record.Attachments, func(a, b state.Attachment) int { return cmp.Compare(a.Index, b.Index) })
	for _, a := range o.record.Attachments {
		o.loadAllocationFromCache(readMarker(a.ConfList).Allocation)
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
	// libcni remembers an attachment when its whole chain has succeeded: the line
	// that said so is among the damage.
	if a := &o.record.Attachments[at]; a.Phase == state.Adding && cached.Result != nil {
		a.Phase, a.Result = state.Attached, cached.Result
	}
}

// loadAllocationFromCache takes an allocation from the conflist of an attachment when no
// line has it.
func (o *operation) loadAllocationFromCache(marked *state.Allocation) {
	if marked != nil && o.record.Allocation.Mode == state.ModeUnknown && marked.Mode.Valid() && marked.ID == o.record.Allocation.ID {
		o.record.Allocation = *marked
	}
}

// restore fills in what the namespace tells: its identity, and what attachments
// have.
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
		if !slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool { return shows(a, interfaces) }) {
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

// restoreStatus observes an attachment anew whose status is lost.
func restoreStatus(a *state.Attachment, interfaces []netns.Interface, routes []netns.Route) error {
	if a.Phase != state.Attached || a.Status != nil || !shows(*a, interfaces) {
		return nil
	}
	ports, err := mappingsOf(*a)
	if err != nil {
		return err
	}
	a.Status, err = encodeStatus(*a, interfaces, routes, ports)
	return err
}

// shows tells whether the interfaces have the one that the attachment's result
// describes: plugins give each a MAC of its own.
func shows(a state.Attachment, interfaces []netns.Interface) bool {
	result, err := parseResult(a.Result)
	if err != nil {
		return false
	}
	for _, made := range result.Interfaces {
		if made.Name != a.Interface || made.Sandbox == "" || made.Mac == "" {
			continue
		}
		if slices.ContainsFunc(interfaces, func(i netns.Interface) bool { return i.Name == made.Name && strings.EqualFold(i.MAC, made.Mac) }) {
			return true
		}
	}
	return false
}

func mappingsOf(a state.Attachment) ([]cni.PortMapping, error) {
	data, err := json.Marshal(a.CapabilityArgs["portMappings"])
	if err != nil {
		return nil, err
	}
	var mappings []cni.PortMapping
	return mappings, json.Unmarshal(data, &mappings)
}

// unfinished is an error when the record, as far as it is known, has an
// attachment that was not seen through: a damaged line may have said otherwise.
func (o *operation) unfinished() error {
	if len(o.record.Attachments) == 0 {
		return errors.New("nothing tells what is attached")
	}
	for _, a := range o.record.Attachments {
		if a.Phase == state.Adding || a.Phase == state.Attached && a.Status == nil {
			return fmt.Errorf("nothing tells what became of interface %s", a.Interface)
		}
	}
	return nil
}

// setDamageAside writes what is known of the record before it is torn down, and
// keeps the damaged one.
func (o *operation) setDamageAside() {
	if len(o.record.Damaged) == 0 {
		return
	}
	if err := o.lock.Repair(o.record); err != nil { // as on a full disk, where a teardown goes on
		o.log.Warn("the damaged record is not kept", "error", err)
	}
	o.record.Damaged = nil
}

// restoreForCheck completes a damaged record for a look at it, and reports the
// damage.
func (o *operation) restoreForCheck() error {
	if len(o.record.Damaged) == 0 {
		return nil
	}
	if err := o.restore(); err != nil {
		o.log.Warn("the damaged record is not completed", "error", err)
	}
	return o.damagedRecord(nil)
}
