// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Verified is what Verify found.
type Verified struct {
	// Restored are addresses of this host whose entries were missing, free or old, and are not now.
	Restored []netip.Addr
	// Lost are those of this host that the store says another has: they may be in use twice.
	Lost []netip.Addr
	// Freed are those that this host held without knowing.
	Freed []netip.Addr
}

// Verify compares the store's entries with what this host holds, and repairs what differs
// unless it is another's. It finishes what Finish does, too.
func (a *Addresses) Verify(ctx context.Context) (Verified, error) {
	s, err := a.open(ctx)
	if err != nil {
		return Verified{}, err
	}
	defer s.close()
	if err := s.readTrusted(ctx); err != nil {
		return Verified{}, err
	}
	v, errs := verifier{s: s}, []error{s.finish(ctx)}
	for _, address := range sorted(s.records) {
		if r := s.records[address]; r.State != releasing && s.mayChange(r) {
			errs = append(errs, v.verify(ctx, address, r))
		}
	}
	for _, address := range sorted(s.view.entries) {
		if e := s.view.entries[address]; e.isHeld() && e.content.Host.Instance == s.host.Instance && s.records[address] == nil {
			errs = append(errs, v.verifyUnknown(ctx, address, e))
		}
	}
	return v.found, errors.Join(append(errs, s.unpublishOthers())...)
}

// verifier compares what a host holds with the store.
type verifier struct {
	s     *session
	found Verified
}

// verify compares the entry of an address that an attachment of this host has: one that has no
// lease is to be given back, whatever its record said when it was read.
func (v *verifier) verify(ctx context.Context, address netip.Addr, r *record) error {
	s := v.s
	leased, ok, err := s.a.o.Leases.Owner(ctx, address)
	if err != nil || !ok || leased != r.Content.Owner {
		return err
	}
	e := s.view.at(address)
	if e.index != r.Index || e.content.ClaimID != r.Content.ClaimID {
		if e, err = s.view.reread(ctx, address); err != nil {
			return err
		}
	}
	isRestorable, err := v.isRestorable(ctx, e)
	switch {
	case err != nil:
		s.a.o.Logger.Warn("ask Nomad who has a reserved address", "address", address, "error", err)
	case e.isHeld() && e.content.ClaimID == r.Content.ClaimID:
		return v.verifyOwn(ctx, r, e)
	case isRestorable && r.State == lost && v.othersFirst(e):
		v.found.Lost = append(v.found.Lost, address)
		return nil
	case isRestorable:
		return v.restore(ctx, address, r, e)
	}
	v.found.Lost = append(v.found.Lost, address)
	if err := s.a.unpublish(ctx, address, r); err != nil || r.State == lost {
		return err
	}
	s.a.o.Logger.Error("the store says that another host has a reserved address that is in use here", "address", address, "container", r.Content.Owner.ContainerID, "entry", describe(e))
	changed := *r
	changed.State, changed.Index = lost, 0
	_, err = s.put(ctx, address, &changed)
	return err
}

// isRestorable returns whether the entry of an address that is in use here is not another host's:
// it is missing, or free, whatever it is kept for, or what this host wrote before, or of an
// allocation that has ended.
func (v *verifier) isRestorable(ctx context.Context, e *entry) (bool, error) {
	switch {
	case e.index == 0, e.isFree():
		return true, nil
	case e.err != nil:
		return false, nil
	case e.content.Host.Instance == v.s.host.Instance:
		return true, nil
	}
	return v.s.ended(ctx, e)
}

// reassert is for how long a host leaves an address that it had lost to the one that had it
// since, after the store was restored.
const reassert = 12 * time.Second

// othersFirst returns whether the host that had an address before its entry vanished may not
// have had the time to write it again.
func (v *verifier) othersFirst(e *entry) bool {
	return v.s.view.settling() > settle-reassert || !e.missing.IsZero() && v.s.now.age(e.missing) < reassert
}

// describe says what an entry is, for the log.
func describe(e *entry) string {
	switch {
	case e.err != nil:
		return e.err.Error()
	case e.index == 0:
		return "missing"
	case e.isFree():
		return fmt.Sprintf("kept for job %q of namespace %q", e.content.Job.Job, e.content.Job.Namespace)
	}
	return "held by container " + e.content.Owner.ContainerID + " on node " + e.content.Host.NodeName
}

// verifyOwn notes the index of an entry, and corrects what it says of this host: the node has
// another ID if Nomad's directory was lost.
func (v *verifier) verifyOwn(ctx context.Context, r *record, e *entry) error {
	s, index, content := v.s, e.index, e.content
	current := content
	if current.Host = s.host; !sameHost(current.Host, content.Host) {
		var err error
		if index, err = s.view.save(ctx, current, e.index); err != nil {
			return ignoreOvertaken(err)
		}
		content = current
	}
	if r.State == held && r.Index == index && r.Content == content {
		return nil
	}
	_, err := s.put(ctx, content.Address, r.heldAt(index, content))
	return err
}

// sameHost returns whether a host is as an entry says. In which boot it was written does not
// matter.
func sameHost(current, written ipam.Host) bool {
	written.Boot = current.Boot
	return current == written
}

// restore writes the entry of an address of this host that is missing, free or old: the store was
// restored, or the address was freed because the node seemed gone.
func (v *verifier) restore(ctx context.Context, address netip.Addr, r *record, e *entry) error {
	s, content := v.s, r.Content
	content.Host = s.host
	if e.index != 0 {
		content.Reserved = e.content.Reserved && sameJob(e.content.Job, content.Job)
	}
	index, err := s.view.save(ctx, content, e.index)
	if err != nil {
		return ignoreOvertaken(err)
	}
	v.found.Restored = append(v.found.Restored, address)
	s.a.o.Logger.Warn("wrote the entry of a reserved address again, which was missing, free or old", "address", address, "was", describe(e))
	_, err = s.put(ctx, address, r.heldAt(index, content))
	return err
}

// ignoreOvertaken: what another host has changed meanwhile is seen at the next time.
func ignoreOvertaken(err error) error {
	if errors.Is(err, errOvertaken) {
		return nil
	}
	return err
}

// verifyUnknown repairs an address that this host holds by the store, and has no record of: if
// it has a lease the record was lost, else a late request of a killed process took it. It may
// also be an old entry of a store that was restored, which the holder replaces: there is time.
func (v *verifier) verifyUnknown(ctx context.Context, address netip.Addr, e *entry) error {
	s := v.s
	leased, ok, err := s.a.o.Leases.Owner(ctx, address)
	switch {
	case err != nil:
		return err
	case ok && leased == e.content.Owner:
		_, err = s.put(ctx, address, &record{State: held, Index: e.index, Content: e.content})
		return err
	case s.isNew || s.view.settling() > 0:
		return nil
	}
	var busy *BusyError
	switch err := s.freeUnknown(ctx, address, e); {
	case errors.As(err, &busy):
		s.a.o.Logger.Warn("a reserved address is not given back", "error", err)
		return nil
	case err != nil:
		return err
	}
	v.found.Freed = append(v.found.Freed, address)
	return nil
}
