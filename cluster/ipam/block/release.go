// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// releaseAttempts are made if the entry changes at the same time.
const releaseAttempts = 3

// ErrObjection keeps blocks that a host could give back as long as a copy of it can object.
var ErrObjection = errdefs.New(errdefs.Unavailable, fmt.Sprintf("a host gives back a block %s after it has registered in the store, and %s after it has decided so, in which a copy of it can object: wait", settle, settle))

// Release gives back the blocks without leases whose addresses have all cooled down for idle,
// but for some spare ones of each family. It takes two calls: in between, for 40 s, no address of
// them is given out, and a copy of this host can object. Without such blocks it does not need the store.
func (l *Leases) Release(ctx context.Context, idle time.Duration, spare int) ([]ipam.Block, error) {
	released, err := l.release(ctx, idle, spare)
	if errors.Is(err, ErrObjection) {
		return released, nil
	}
	return released, err
}

// release is Release, which fails with ErrObjection if there is something left to give back.
func (l *Leases) release(ctx context.Context, idle time.Duration, spare int) ([]ipam.Block, error) {
	if unused, err := l.unused(ctx, idle, spare); err != nil || !unused {
		return nil, err
	}
	var released []ipam.Block
	err := l.withSole(ctx, func(s *session) error {
		if err := s.mismatch(s.records); err != nil {
			return err
		}
		if s.isNew {
			return ErrObjection
		}
		err := errors.Join(s.markReleasing(ctx, idle, spare), s.offer(ctx))
		for _, r := range s.records.releasing() {
			errRelease := s.resolveRelease(ctx, r)
			if err = errors.Join(err, errRelease); errRelease == nil {
				released = append(released, r.Block)
			}
		}
		return err
	})
	return released, err
}

// unused tells without the store whether there is something to give back.
func (l *Leases) unused(ctx context.Context, idle time.Duration, spare int) (bool, error) {
	unlock, err := l.Addresses.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	self, err := l.self()
	if err != nil {
		return false, err
	}
	r, err := l.readRecords(self.Instance)
	if err != nil {
		return false, err
	}
	unused, err := l.selectUnused(r, idle, spare)
	return len(unused)+len(r.releasing()) > 0, err
}

func (r *records) releasing() []Record {
	return slices.DeleteFunc(slices.Clone(r.Blocks), func(b Record) bool { return b.State != Releasing })
}

// selectUnused returns the held blocks that are idle, without the spare ones. The lease lock
// is held.
func (l *Leases) selectUnused(all *records, idle time.Duration, spare int) ([]Record, error) {
	empty, selected := map[ipam.Family]int{}, []Record(nil)
	for _, r := range all.Blocks {
		if r.State != Held {
			continue
		}
		leases, cool, err := l.Addresses.LastUse(r.Block)
		if err != nil {
			return nil, err
		}
		family := ipam.FamilyOf(r.Block.Addr())
		if leases > 0 {
			continue
		}
		if empty[family]++; empty[family] > spare && l.idleFor(r, cool) >= idle {
			selected = append(selected, r)
		}
	}
	return selected, nil
}

// idleFor returns for how long all addresses of a block could have been given out; negative
// if one cools down. A claim that is yet to come, because the clock was changed, does not count.
func (l *Leases) idleFor(r Record, cool time.Time) time.Duration {
	now := l.clock.now()
	if cool.Before(r.Since) && !r.Since.After(now) {
		cool = r.Since
	}
	return now.Sub(cool)
}

// markReleasing changes the records of unused blocks, so that no address of them is given out.
func (s *session) markReleasing(ctx context.Context, idle time.Duration, spare int) error {
	return s.edit(ctx, func(all *records) error {
		unused, err := s.selectUnused(all, idle, spare)
		for _, r := range unused {
			all.Blocks[all.find(r.Block)] = r.as(Releasing, r.Claim, r.Index)
		}
		return err
	})
}

// offer lets a machine with the memory of this one, of before the blocks were marked, object: it finds a nonce that it
// did not write. One of after that gives out no address of them either.
func (s *session) offer(ctx context.Context) error {
	isReset := s.isReset
	isNew := func(r Record) bool {
		return r.State == Releasing && (isReset || r.Offered.Boot != s.host.Boot || r.Offered.isZero())
	}
	if ipam.IsPrivate(s.store) || !slices.ContainsFunc(s.records.Blocks, isNew) {
		return nil
	}
	if err := s.challengeCopies(ctx); err != nil {
		return err
	}
	return s.edit(ctx, func(all *records) error {
		for i, r := range all.Blocks {
			if isNew(r) {
				all.Blocks[i].Offered = s.moment(s.host.Boot)
			}
		}
		return nil
	})
}

// isOffered tells whether a copy of this machine has had the time to object.
func (s *session) isOffered(r Record) bool {
	return ipam.IsPrivate(s.store) || r.Offered.Boot == s.host.Boot && !r.Offered.isZero() && !s.now.within(settle, r.Offered)
}

// resolveRelease deletes an entry until it is known not to be this host's any more. The entry is
// read first, because of a restored store the index alone may be that of another's.
func (s *session) resolveRelease(ctx context.Context, r Record) error {
	if !s.isOffered(r) {
		return fmt.Errorf("release block %s: %w", r.Block, ErrObjection)
	}
	path := s.path(r.Block)
	for range releaseAttempts {
		o, err := s.owner(ctx, path)
		if err == nil && s.owns(o) && s.knows(path, o.ClaimID) {
			err = s.store.Delete(ctx, path, o.index)
		}
		switch {
		case errors.Is(err, ipam.ErrConflict):
			continue
		case err != nil:
			return fmt.Errorf("release block %s: %w", r.Block, err)
		}
		if err := s.remember(r); err != nil {
			return err
		}
		return s.drop(ctx, r)
	}
	return fmt.Errorf("release block %s: %w: %d times", r.Block, ipam.ErrConflict, releaseAttempts)
}
