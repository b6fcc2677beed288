// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// freeTimeout is how long Free waits for the store.
const freeTimeout = time.Second

// Free gives back what an attachment holds: on record first, then its leases are removed. The
// store is told if it answers within a second, else by the next Finish of any process. It is
// no error to hold nothing.
func (a *Addresses) Free(ctx context.Context, owner ipam.Owner) error {
	return a.FreeOthers(ctx, owner, nil)
}

// FreeOthers is Free but for the addresses that the attachment needs.
func (a *Addresses) FreeOthers(ctx context.Context, owner ipam.Owner, needed []netip.Addr) error {
	marked, err := a.giveBack(ctx, owner, needed)
	if err != nil || !marked {
		return err
	}
	short, cancel := context.WithTimeout(ctx, freeTimeout)
	defer cancel()
	if err := a.Finish(short); err != nil {
		a.o.Logger.Warn("give back reserved addresses: it is repeated later", "error", err)
	}
	return nil
}

// restoreTimeout is how long Restore waits for other processes and the store.
const restoreTimeout = 2 * time.Second

// Restore is FreeOthers after a failure, also after the end of ctx. What it has no time for is
// done by the next Finish of any process.
func (a *Addresses) Restore(ctx context.Context, owner ipam.Owner, before []netip.Addr) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
	defer cancel()
	return a.FreeOthers(ctx, owner, before)
}

// giveBack marks what an attachment does not need, and removes its leases. It returns whether
// there is anything.
func (a *Addresses) giveBack(ctx context.Context, owner ipam.Owner, needed []netip.Addr) (bool, error) {
	records, err := a.records.load(ctx)
	if err != nil {
		return false, err
	}
	var marked bool
	var errs []error
	for _, address := range sorted(records) {
		r := records[address]
		if r.Content.Owner != owner || slices.Contains(needed, address) {
			continue
		}
		marked = true
		if err := a.unpublish(ctx, address, r); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, a.mark(ctx, address, r), a.o.Leases.Remove(ctx, address, owner))
	}
	return marked, errors.Join(errs...)
}

// mark marks an address that is to be given back. If another process has changed the record,
// that is looked at: it may have taken the address for this owner a moment ago.
func (a *Addresses) mark(ctx context.Context, address netip.Addr, r *record) error {
	for owner := r.Content.Owner; r != nil && r.Content.Owner == owner && r.State != releasing; {
		changed := *r
		changed.State, changed.Released = releasing, a.o.Now()
		done, err := a.records.replace(ctx, address, r, &changed)
		if err != nil || done {
			return err
		}
		all, err := a.records.load(ctx)
		if err != nil {
			return err
		}
		r = all[address]
	}
	return nil
}

// Finish gives back what earlier processes could not, and what has no lease any more.
func (a *Addresses) Finish(ctx context.Context) error {
	records, err := a.records.load(ctx)
	if err != nil || len(records) == 0 {
		return err
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	return s.finish(ctx)
}

func (s *session) finish(ctx context.Context) error {
	var errs []error
	for _, address := range sorted(s.records) {
		err := s.abandon(ctx, address)
		if r := s.records[address]; err == nil && r.State == releasing && s.mayChange(r) {
			err = s.release(ctx, address, r)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// mayChange tells whether the entry that a record is of is this machine's alone to change: what it
// had before its boot, another may have, of which it is a copy and that had no time to say so.
func (s *session) mayChange(r *record) bool {
	return !s.isNew || r.Content.Host.Boot == s.host.Boot
}

// abandon marks an address whose lease another process has removed, or a killed one has not
// made: no other process takes addresses now. Not soon after a boot: of two clones, the other
// has the attachment.
func (s *session) abandon(ctx context.Context, address netip.Addr) error {
	r := s.records[address]
	if r.State == releasing {
		return s.a.o.Leases.Remove(ctx, address, r.Content.Owner) // a killed Free had no time to
	}
	leased, ok, err := s.a.o.Leases.Owner(ctx, address)
	if err != nil || s.isNew || ok && leased == r.Content.Owner {
		return err
	}
	if err := s.a.unpublish(ctx, address, r); err != nil {
		return err
	}
	changed := *r
	changed.State, changed.Released = releasing, s.now()
	_, err = s.put(ctx, address, &changed)
	return err
}

// release tells the store that an address is free, and removes the record. The entry is read first: in a
// store that was restored, another's may have the index of the record.
func (s *session) release(ctx context.Context, address netip.Addr, r *record) error {
	for range attempts {
		e, err := s.view.reread(ctx, address)
		if err != nil {
			return err
		}
		if e.isHeld() && e.content.ClaimID == r.Content.ClaimID { // else a late request makes an entry that Verify gives back
			_, err = s.view.save(ctx, s.freed(e.content, r), e.index)
		}
		if err == nil {
			_, err = s.put(ctx, address, nil) // if another process has changed the record, it stays
		}
		if !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return nil
}

// freed is the content of an address that is given back. It is kept for its key, if it has one.
// This host may take it again at once, unless the store was restored since: another host may
// have it, and needs time to say so.
func (s *session) freed(content ipam.AddressContent, r *record) ipam.AddressContent {
	content = vacant(content, s.now())
	if r.Drop && slices.Contains(s.unconfirmed, content.Address) { // no namespace ever had it, whatever a restored record says
		content.Freed, content.Host = time.Time{}, ipam.Host{}
	}
	if r.Drop && !content.Reserved {
		content.Job = ipam.Job{}
	}
	if restored := s.view.memory.Restored; !restored.IsZero() && !r.Released.After(restored) {
		content.Host, content.Published = ipam.Host{}, false
	}
	return content
}

// vacant is the content of an address that its holder has left.
func vacant(content ipam.AddressContent, now time.Time) ipam.AddressContent {
	content.State, content.Freed, content.Owner = ipam.Free, now, ipam.Owner{}
	if content.Job.Allocation = ""; !isKept(content) {
		content.Job = ipam.Job{}
	}
	return content
}

// abandoned is the content of an address whose holder can give it back no more, or does not
// know of it, and may still have it. It may be from a request that was too late: it is not kept if the key has another
// address, or the job too many.
func (s *session) abandoned(e *entry) ipam.AddressContent {
	content, limit := vacant(e.content, s.now()), s.a.o.Config.MaxReservedPerJob
	content.Published = false
	if content.Reserved || content.Job.Key == "" {
		return content
	}
	family := ipam.FamilyOf(content.Address)
	for address, other := range s.view.entries {
		if address != content.Address && other.isFor(content.Job, family) {
			content.Job = ipam.Job{}
			return content
		}
	}
	if limit > 0 && s.view.countOf(content.Job) > limit {
		content.Job = ipam.Job{}
	}
	return content
}

// freeUnknown frees an entry that this host holds without a record, for anyone. One that a copy of
// this host has taken since the session began shows the copy by now.
func (s *session) freeUnknown(ctx context.Context, address netip.Addr, e *entry) error {
	wrote, err := s.a.o.Guard.Wrote(ctx, s.store, s.host, e.content.Host)
	if err != nil {
		return err
	}
	if !wrote {
		return &BusyError{Address: address, Reason: "a copy of this host has taken it, which was refused: when nothing uses it there, delete the store's " + ipam.AddressPath(s.a.o.Config.Pool, address)}
	}
	if err := s.a.unpublish(ctx, address, &record{Content: e.content}); err != nil {
		return err
	}
	content := s.abandoned(e)
	content.Host = ipam.Host{}
	_, err = s.view.save(ctx, content, e.index)
	if errors.Is(err, errOvertaken) {
		return nil
	}
	s.a.o.Logger.Info("gave back a reserved address that this host held without knowing", "address", address)
	return err
}
