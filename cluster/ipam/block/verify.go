// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Watch waits until the blocks of the pool change in the store, or for a while, and returns
// the index to wait for next. It holds no lock. With 0 it does not wait.
func (l *Leases) Watch(ctx context.Context, after uint64) (uint64, error) {
	if err := l.saveFence(ctx); err != nil {
		return after, err
	}
	store, _, err := l.Connect()
	if err != nil {
		return after, err
	}
	l.attends.Store(true)
	listing, err := store.List(ctx, ipam.BlocksPrefix(l.Config.Pool), after)
	if err != nil {
		l.trusted.Store(false)
		return after, err
	}
	return listing.Index, nil
}

// Verify compares the host's records with the store, and makes the store right where that
// takes nothing from another: what is missing is created again, and late writes of this host
// are removed. A block that is owned by another host is closed. It also resolves what earlier
// processes left.
func (l *Leases) Verify(ctx context.Context) error {
	if err := l.saveFence(ctx); err != nil {
		return err
	}
	trusted := l.trusted.Swap(false)
	return l.withStore(ctx, func(s *session) error {
		began := s.now
		s.trusted = trusted
		err := s.verifyPool(ctx)
		if err == nil {
			err = s.look(ctx)
		}
		if err == nil {
			err = s.verifyOwnedAll(ctx)
		}
		l.trusted.Store(err == nil)
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		if err := s.verified(ctx, began); err != nil || s.twin != nil {
			return errors.Join(s.twin, err)
		}
		return errors.Join(s.resolveAll(ctx), s.announce(ctx))
	})
}

// verifyPool compares the configuration with the store's. By another one the blocks on record
// would be foreign.
func (s *session) verifyPool(ctx context.Context) error {
	if s.twin != nil {
		return s.mismatch(s.records)
	}
	err := s.agree(ctx)
	if errors.Is(err, ipam.ErrMismatch) {
		return s.mismatch(s.records)
	}
	return err
}

// Refresh verifies if that was long ago, as is the case where no agent does. It returns soon,
// and its error changes nothing: what was verified stays so until the fence.
func (l *Leases) Refresh(ctx context.Context) error {
	self, err := l.self()
	if err != nil {
		return err
	}
	r, err := l.readSettled(ctx, self.Instance)
	if err != nil {
		return err
	}
	now := l.moment(self.Boot)
	after, pause := refreshAfter, refreshPause
	if r.waits(now.Boot) {
		after, pause = settle, settle
	}
	fresh := !now.older(after, r.Verified) && r.Verified.Boot == now.Boot
	if len(r.Blocks) == 0 || fresh || now.within(pause, r.Attempted) && r.Attempted.Boot == now.Boot {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := l.attempted(ctx, self.Host, now); err != nil {
		return err
	}
	return l.Verify(ctx)
}

func (l *Leases) attempted(ctx context.Context, self ipam.Host, now moment) error {
	s := &session{Leases: l, host: self}
	return s.edit(ctx, func(r *records) error { r.Attempted = now; return nil })
}

// verified records that all records were compared after a moment.
func (s *session) verified(ctx context.Context, at moment) error {
	return s.edit(ctx, func(r *records) error {
		if r.doubted {
			return errRestored
		}
		r.Verified = at
		return nil
	})
}

// saveFence records the fence that is configured. It is in force even if the store does not answer
// then.
func (l *Leases) saveFence(ctx context.Context) error {
	if l.Fence == nil {
		return nil
	}
	fence, err := l.Fence()
	if err != nil {
		return err
	}
	self, err := l.self()
	if err != nil {
		return err
	}
	r, err := l.readRecords(self.Instance)
	if err != nil || r.Fence == int64(fence) {
		return err
	}
	s := &session{Leases: l, host: self.Host}
	return s.edit(ctx, func(r *records) error { r.Fence = int64(fence); return nil })
}

func (s *session) verifyOwnedAll(ctx context.Context) error {
	var errs []error
	for _, r := range slices.Clone(s.records.Blocks) {
		if r.State == Held || r.State == Lost {
			errs = append(errs, s.verifyOwned(ctx, r))
		}
	}
	return errors.Join(errs...)
}

// resolveAll finishes what earlier processes left.
func (s *session) resolveAll(ctx context.Context) error {
	errs := []error{s.removeLate(ctx)}
	if !s.isNew {
		errs = append(errs, s.offer(ctx))
	}
	for _, r := range slices.Clone(s.records.Blocks) {
		switch r.State {
		case Claiming:
			if _, err := s.resolveClaim(ctx, r); !errors.Is(err, ipam.ErrExhausted) { // that has to settle first
				errs = append(errs, err)
			}
		case Releasing:
			if !s.isNew && s.isOffered(r) {
				errs = append(errs, s.resolveRelease(ctx, r))
			}
		}
	}
	return errors.Join(errs...)
}

// verifyOwned compares a block that this host has, or had, with its entry. The index alone
// proves it only as long as the store has answered all the time: one that was restored on new
// servers counts on from the snapshot's.
func (s *session) verifyOwned(ctx context.Context, r Record) error {
	if r.State == Held && s.view.entries[s.path(r.Block)] == r.Index && s.trusted {
		return nil
	}
	o, err := s.owner(ctx, s.path(r.Block))
	if err == nil && o == nil {
		return s.assert(ctx, r)
	}
	return s.compare(ctx, r, o, err)
}

// compare makes a record what the entry says of its block, which was there.
func (s *session) compare(ctx context.Context, r Record, o *owner, err error) error {
	switch {
	case err != nil:
		return err
	case o == nil:
		return fmt.Errorf("block %s: %w: it changes at the moment", r.Block, ipam.ErrConflict)
	case !s.owns(o) || s.isOfCopy(r.Block, o):
		return s.lose(ctx, r, o)
	}
	return s.keep(ctx, r, r.found(o))
}

func (s *session) keep(ctx context.Context, was, now Record) error {
	if was == now {
		return nil
	}
	return s.replace(ctx, was, now)
}

// assert creates the missing entry of a block again, and that of the pool, which a snapshot of
// before has not either. One that was another's before goes to that one first.
func (s *session) assert(ctx context.Context, r Record) error {
	if _, ok := s.Config.Slots(ipam.FamilyOf(r.Block.Addr())).Index(r.Block); !ok {
		return s.lose(ctx, r, &owner{err: fmt.Errorf("%s is no block of the pool %s", r.Block, s.Config.Pool)})
	}
	if r.State == Lost {
		if done, err := s.dropUnused(ctx, r); done || err != nil {
			return err
		}
		if s.free(s.path(r.Block), reassert) != nil {
			return nil // the other one's turn
		}
	}
	index, err := s.store.Create(ctx, s.path(r.Block), s.content(r))
	if errors.Is(err, ipam.ErrConflict) {
		o, err := s.owner(ctx, s.path(r.Block))
		return s.compare(ctx, r, o, err)
	}
	if err != nil {
		return fmt.Errorf("create block %s again: %w", r.Block, err)
	}
	s.Logger.Warn("a block of this host was missing from the store and was created again", "pool", s.Config.Pool, "block", r.Block)
	return errors.Join(s.replace(ctx, r, r.as(Held, r.Claim, index)), s.agree(ctx))
}

// lose closes a block that the store has as another's. What is in use stays.
func (s *session) lose(ctx context.Context, r Record, o *owner) error {
	s.view.note(s.path(r.Block), o.index)
	if r.State == Lost {
		_, err := s.dropUnused(ctx, r)
		return errors.Join(err, s.writeView())
	}
	owner := o.Host.NodeName + " (" + o.Host.Instance + ")"
	if o.err != nil {
		owner = "unknown: " + o.err.Error()
	}
	s.Logger.Error("a block of this host is owned by another: it gives out no more addresses of it", "pool", s.Config.Pool, "block", r.Block, "owner", owner)
	return errors.Join(s.writeView(), s.replace(ctx, r, r.as(Lost, r.Claim, 0)))
}

// dropUnused removes the record of a lost block without leases.
func (s *session) dropUnused(ctx context.Context, r Record) (done bool, err error) {
	used, err := s.used(ctx, r.Block)
	if err != nil || used {
		return false, err
	}
	if err := s.remember(r); err != nil {
		return false, err
	}
	return true, s.drop(ctx, r)
}

func (s *session) used(ctx context.Context, b ipam.Block) (bool, error) {
	unlock, err := s.Addresses.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	leases, _, err := s.Addresses.LastUse(b)
	return leases > 0, err
}

// removeLate deletes entries of claims that this host has given up: they arrived late, or came
// back with a snapshot.
func (s *session) removeLate(ctx context.Context) error {
	for _, p := range s.view.Past {
		_, listed := s.view.entries[p.Path]
		if !listed || s.hasRecord(p.Path) {
			continue
		}
		o, err := s.owner(ctx, p.Path)
		if err != nil {
			return err
		}
		if !s.owns(o) || o.ClaimID != p.Claim {
			continue
		}
		if err := s.store.Delete(ctx, p.Path, o.index); err != nil && !errors.Is(err, ipam.ErrConflict) {
			return fmt.Errorf("delete the late claim %s: %w", p.Path, err)
		}
	}
	return nil
}

func (s *session) hasRecord(path string) bool {
	return slices.ContainsFunc(s.records.Blocks, func(r Record) bool { return s.path(r.Block) == path })
}
