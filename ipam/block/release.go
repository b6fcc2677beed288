// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/ipam"
)

// releaseAttempts are made if the entry changes at the same time.
const releaseAttempts = 3

// errNew keeps the blocks of a host that may have a copy.
var errNew = errdefs.New(errdefs.Unavailable, fmt.Sprintf("a host gives back no block in the first %s after it has registered, in which a copy of it can object: wait", settle))

// Release gives back the blocks without leases whose addresses have all cooled down for idle,
// but for some spare ones of each family; none while a copy of this host can object. Without such
// blocks it does not need the store.
func (l *Leases) Release(ctx context.Context, idle time.Duration, spare int) ([]ipam.Block, error) {
	released, err := l.release(ctx, idle, spare)
	if errors.Is(err, errNew) {
		return nil, nil
	}
	return released, err
}

// release is Release, which fails with errNew if there was something to give back.
func (l *Leases) release(ctx context.Context, idle time.Duration, spare int) ([]ipam.Block, error) {
	unused, err := l.unused(ctx, idle, spare)
	if err != nil || len(unused) == 0 {
		return nil, err
	}
	var released []ipam.Block
	err = l.withSole(ctx, func(s *session) error {
		if err := s.mismatch(s.records); err != nil {
			return err
		}
		if s.isNew {
			return errNew
		}
		marked, err := s.markReleasing(ctx, idle, spare)
		for _, r := range marked {
			errRelease := s.resolveRelease(ctx, r)
			if err = errors.Join(err, errRelease); errRelease == nil {
				released = append(released, r.Block)
			}
		}
		return err
	})
	return released, err
}

// unused is what Release would give back, without the store.
func (l *Leases) unused(ctx context.Context, idle time.Duration, spare int) ([]Record, error) {
	unlock, err := l.Addresses.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	self, err := l.self()
	if err != nil {
		return nil, err
	}
	r, err := l.readRecords(self.Instance)
	if err != nil {
		return nil, err
	}
	return l.selectUnused(r, idle, spare)
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
func (s *session) markReleasing(ctx context.Context, idle time.Duration, spare int) (marked []Record, err error) {
	err = s.edit(ctx, func(all *records) error {
		unused, err := s.selectUnused(all, idle, spare)
		for _, r := range unused {
			now := r.as(Releasing, r.Claim, r.Index)
			all.Blocks[all.find(r.Block)] = now
			marked = append(marked, now)
		}
		return err
	})
	return marked, err
}

// resolveRelease deletes an entry until it is known not to be this host's any more. The entry is
// read first, because of a restored store the index alone may be that of another's.
func (s *session) resolveRelease(ctx context.Context, r Record) error {
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
