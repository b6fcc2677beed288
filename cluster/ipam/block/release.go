// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
)

// releaseAttempts are made if the entry changes at the same time.
const releaseAttempts = 3

// ErrObjection keeps blocks that a host could give back as long as a copy of it can object.
var ErrObjection = errdefs.New(errdefs.Unavailable, fmt.Sprintf("a host gives back a block %s after it has registered in the store, and %s after it has decided so, in which a copy of it can object: wait", settle, settle))

// Release gives back the blocks without leases whose addresses have all cooled down for idle,
// but for some spare ones of each family. It takes two calls: in between, for 40 s, no address of
// them is given out, and a copy of this host can object. Without such blocks it does not need the store.
func (l *Leases) Release(ctx context.Context, idle time.Duration, spare int) ([]ipam.Block, error) {
	released, err := l.release(ctx, surplus{idle, spare})
	if errors.Is(err, ErrObjection) {
		return released, nil
	}
	return released, err
}

// release is Release, which fails with ErrObjection if there is something left to give back.
func (l *Leases) release(ctx context.Context, what surplus) ([]ipam.Block, error) {
	if unused, err := l.unused(ctx, what); err != nil || !unused {
		return nil, err
	}
	var released []ipam.Block
	err := l.withSole(ctx, func(s *session) error {
		if err := s.records.mismatch(l.Config); err != nil {
			return err
		}
		if s.place.isNew {
			return ErrObjection
		}
		err := s.edit(ctx, func(all *records) error { // so that no address of them is given out
			unused, err := what.of(all, l)
			for _, r := range unused {
				all.Blocks[all.find(r.Block)] = r.as(Releasing, r.Claim, r.Index)
			}
			return err
		})
		err = errors.Join(err, s.offer(ctx))
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
func (l *Leases) unused(ctx context.Context, what surplus) (bool, error) {
	unlock, err := l.Addresses.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	self, err := l.machine.self()
	if err != nil {
		return false, err
	}
	r, err := l.ledger.read(self.Instance)
	if err != nil {
		return false, err
	}
	unused, err := what.of(r, l)
	return len(unused)+len(r.releasing()) > 0, err
}

func (r *records) releasing() []Record {
	return slices.DeleteFunc(slices.Clone(r.Blocks), func(b Record) bool { return b.State != Releasing })
}

// surplus is what a host gives back: blocks that have been idle for so long, but for some spare ones
// of each family.
type surplus struct {
	idle  time.Duration
	spare int
}

// of returns the surplus of the held blocks. The lease lock is held.
func (u surplus) of(all *records, l *Leases) ([]Record, error) {
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
		if empty[family]++; empty[family] > u.spare && r.idleFor(cool, l.machine.clock.now()) >= u.idle {
			selected = append(selected, r)
		}
	}
	return selected, nil
}

// idleFor returns for how long all addresses of a block could have been given out; negative
// if one cools down. A claim that is yet to come, because the clock was changed, does not count.
func (r Record) idleFor(cool, now time.Time) time.Duration {
	if cool.Before(r.Since) && !r.Since.After(now) {
		cool = r.Since
	}
	return now.Sub(cool)
}

// offer lets a machine with the memory of this one, of before the blocks were marked, object: it finds a nonce that it
// did not write. One of after that gives out no address of them either.
func (s *session) offer(ctx context.Context) error {
	isReset := s.place.isReset
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
				all.Blocks[i].Offered = s.l.machine.moment(s.host.Boot)
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
		if err == nil && o.isOurs() && o.isKnown {
			err = s.store.Delete(ctx, path, o.index)
		}
		switch {
		case errors.Is(err, ipam.ErrConflict):
			continue
		case err != nil:
			return fmt.Errorf("release block %s: %w", r.Block, err)
		}
		return s.drop(ctx, r)
	}
	return fmt.Errorf("release block %s: %w: %d times", r.Block, ipam.ErrConflict, releaseAttempts)
}

// Leave gives back all blocks without leases, also those whose addresses cool down, and forgets
// where this host is reached: other hosts are to send it nothing any more. It returns what the
// host has no more, also with an error. It is one while a copy of this host can object.
func (l *Leases) Leave(ctx context.Context) ([]ipam.Block, error) {
	if err := files.Remove(l.ledger.dir.pathOf(endpointFile)); err != nil {
		return nil, fmt.Errorf("forget the endpoint of this host: %w", err)
	}
	before, err := l.Overview()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(before.Blocks, func(r Record) bool { return r.State != Held }) {
		err = l.Verify(ctx) // resolves them
	}
	if err == nil {
		_, err = l.release(ctx, surplus{idle: math.MinInt64})
	}
	after, errRead := l.Overview()
	if errRead != nil {
		return nil, errors.Join(err, errRead)
	}
	var gone []ipam.Block
	for _, r := range before.Blocks {
		if !slices.ContainsFunc(after.Blocks, func(left Record) bool { return left.Block == r.Block }) {
			gone = append(gone, r.Block)
		}
	}
	return gone, err
}
