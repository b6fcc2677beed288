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
	l.machine.attends.Store(true)
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
		v, began := &verifier{s, trusted}, s.now
		err := v.verifyPool(ctx)
		if err == nil {
			err = s.look(ctx)
		}
		if err == nil {
			err = v.verifyBlocks(ctx)
		}
		l.trusted.Store(err == nil)
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		err = s.edit(ctx, func(r *records) error {
			if r.doubted {
				return errRestored
			}
			r.Verified = began
			return nil
		})
		if err != nil || s.twin != nil {
			return errors.Join(s.twin, err)
		}
		return errors.Join(v.resolve(ctx), s.announce(ctx))
	})
}

// verifier compares the records of a session with the store.
type verifier struct {
	s *session
	// trusted is Leases.trusted as it was.
	trusted bool
}

// verifyPool compares the configuration with the store's. By another one the blocks on record
// would be foreign.
func (v *verifier) verifyPool(ctx context.Context) error {
	if v.s.twin == nil {
		if err := v.s.agree(ctx); !errors.Is(err, ipam.ErrMismatch) {
			return err
		}
	}
	return v.s.records.mismatch(v.s.l.Config)
}

// Refresh verifies if that was long ago, as is the case where no agent does. It returns soon,
// and its error changes nothing: what was verified stays so until the fence.
func (l *Leases) Refresh(ctx context.Context) error {
	self, err := l.machine.self()
	if err != nil {
		return err
	}
	r, err := l.ledger.readSettled(ctx, self.Instance)
	if err != nil {
		return err
	}
	now := l.machine.moment(self.Boot)
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
	if _, err := l.ledger.edit(ctx, self.Host, func(r *records) error { r.Attempted = now; return nil }); err != nil {
		return err
	}
	return l.Verify(ctx)
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
	self, err := l.machine.self()
	if err != nil {
		return err
	}
	r, err := l.ledger.read(self.Instance)
	if err != nil || r.Fence == int64(fence) {
		return err
	}
	_, err = l.ledger.edit(ctx, self.Host, func(r *records) error { r.Fence = int64(fence); return nil })
	return err
}

func (v *verifier) verifyBlocks(ctx context.Context) error {
	var errs []error
	for _, r := range slices.Clone(v.s.records.Blocks) {
		if r.State == Held || r.State == Lost {
			errs = append(errs, v.verifyBlock(ctx, r))
		}
	}
	return errors.Join(errs...)
}

// resolve finishes what earlier processes left.
func (v *verifier) resolve(ctx context.Context) error {
	s, errs := v.s, []error{v.removeLate(ctx)}
	if !s.place.isNew {
		errs = append(errs, s.offer(ctx))
	}
	for _, r := range slices.Clone(s.records.Blocks) {
		switch r.State {
		case Claiming:
			if _, err := s.resolveClaim(ctx, r); !errors.Is(err, ipam.ErrExhausted) { // that has to settle first
				errs = append(errs, err)
			}
		case Releasing:
			if !s.place.isNew && s.isOffered(r) {
				errs = append(errs, s.resolveRelease(ctx, r))
			}
		}
	}
	return errors.Join(errs...)
}

// verifyBlock compares a block that this host has, or had, with its entry. The index alone
// proves it only as long as the store has answered all the time: one that was restored on new
// servers counts on from the snapshot's.
func (v *verifier) verifyBlock(ctx context.Context, r Record) error {
	path := v.s.path(r.Block)
	if r.State == Held && v.s.view.entries[path] == r.Index && v.trusted {
		return nil
	}
	o, err := v.s.owner(ctx, path)
	if err == nil && o == nil {
		return v.assert(ctx, r)
	}
	return v.compare(ctx, r, o, err)
}

// compare makes a record what the entry says of its block, which was there.
func (v *verifier) compare(ctx context.Context, r Record, o *owner, err error) error {
	switch {
	case err != nil:
		return err
	case o == nil:
		return fmt.Errorf("block %s: %w: it changes at the moment", r.Block, ipam.ErrConflict)
	case !o.ours || o.isOfCopy:
		return v.lose(ctx, r, o)
	case r.State == Lost:
		return v.giveBack(ctx, r, o)
	}
	return v.s.keep(ctx, r, r.found(o))
}

// giveBack keeps a block closed that was another's and is this host's again, after a further restore: the other one may
// still have addresses of it. It is given back when this host has none, so that another one that has some can claim it.
func (v *verifier) giveBack(ctx context.Context, r Record, o *owner) error {
	used, err := v.s.l.ledger.used(ctx, r.Block)
	if err != nil || used {
		return err
	}
	now := r.found(o)
	return v.s.replace(ctx, r, now.as(Releasing, now.Claim, now.Index))
}

// assert creates the missing entry of a block again, and that of the pool, which a snapshot of
// before has not either. One that was another's before goes to that one first.
func (v *verifier) assert(ctx context.Context, r Record) error {
	s, config := v.s, v.s.l.Config
	if _, ok := config.Slots(ipam.FamilyOf(r.Block.Addr())).Index(r.Block); !ok {
		return v.lose(ctx, r, &owner{err: fmt.Errorf("%s is no block of the pool %s", r.Block, config.Pool)})
	}
	if r.State == Lost {
		if done, err := v.dropUnused(ctx, r); done || err != nil {
			return err
		}
		if s.view.free(s.now, s.path(r.Block), reassert) != nil {
			return nil // the other one's turn
		}
	}
	index, err := s.store.Create(ctx, s.path(r.Block), s.content(r))
	if errors.Is(err, ipam.ErrConflict) {
		o, err := s.owner(ctx, s.path(r.Block))
		return v.compare(ctx, r, o, err)
	}
	if err != nil {
		return fmt.Errorf("create block %s again: %w", r.Block, err)
	}
	s.l.Logger.Warn("a block of this host was missing from the store and was created again", "pool", config.Pool, "block", r.Block)
	if r.State == Held {
		err = s.replace(ctx, r, r.as(Held, r.Claim, index))
	}
	return errors.Join(err, s.agree(ctx))
}

// lose closes a block that the store has as another's. What is in use stays.
func (v *verifier) lose(ctx context.Context, r Record, o *owner) error {
	s := v.s
	s.view.note(s.path(r.Block), o.index)
	if r.State == Lost {
		_, err := v.dropUnused(ctx, r)
		return errors.Join(err, s.view.write())
	}
	owner := o.Host.NodeName + " (" + o.Host.Instance + ")"
	if o.err != nil {
		owner = "unknown: " + o.err.Error()
	}
	s.l.Logger.Error("a block of this host is owned by another: it gives out no more addresses of it", "pool", s.l.Config.Pool, "block", r.Block, "owner", owner)
	return errors.Join(s.view.write(), s.replace(ctx, r, r.as(Lost, r.Claim, 0)))
}

// dropUnused removes the record of a lost block without leases.
func (v *verifier) dropUnused(ctx context.Context, r Record) (done bool, err error) {
	used, err := v.s.l.ledger.used(ctx, r.Block)
	if err != nil || used {
		return false, err
	}
	return true, v.s.drop(ctx, r)
}

// removeLate deletes entries of claims that this host has given up: they arrived late, or came
// back with a snapshot.
func (v *verifier) removeLate(ctx context.Context) error {
	s := v.s
	for _, p := range s.view.Past {
		_, listed := s.view.entries[p.Path]
		if !listed || s.hasRecord(p.Path) {
			continue
		}
		o, err := s.owner(ctx, p.Path)
		if err != nil {
			return err
		}
		if !o.isOurs() || o.ClaimID != p.Claim {
			continue
		}
		if err := s.store.Delete(ctx, p.Path, o.index); err != nil && !errors.Is(err, ipam.ErrConflict) {
			return fmt.Errorf("delete the late claim %s: %w", p.Path, err)
		}
	}
	return nil
}
