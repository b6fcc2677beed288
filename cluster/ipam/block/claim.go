// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
)

const (
	// claimAttempts are made at slots that others turn out to have.
	claimAttempts = 16
	// fewSlots are so many that the free ones are listed; of more, random ones are looked at,
	// at most guesses.
	fewSlots, guesses = 1 << 14, 256
)

// Claim leases one more block of a family than those that the caller knows, which has found
// them to be too few: another process may have leased one meanwhile. It returns
// ipam.ErrExhausted if none is free, and with an unknown outcome an error of the store: the
// next call finds out.
func (l *Leases) Claim(ctx context.Context, family ipam.Family, known []ipam.Block) (claimed ipam.Block, err error) {
	err = l.withSole(ctx, func(s *session) error {
		for _, b := range s.records.Blocks { // one that is not among those that are known
			if b.isOpen(s.host.Boot) && ipam.FamilyOf(b.Block.Addr()) == family && !slices.Contains(known, b.Block) {
				claimed = b.Block
				return nil
			}
		}
		claimed, err = (&claiming{s, family}).claim(ctx)
		return err
	})
	return claimed, err
}

// Claimable returns why Claim would fail now. Nil: there is a free block. It only reads from
// the store.
func (l *Leases) Claimable(ctx context.Context, family ipam.Family) error {
	return l.withReader(ctx, func(s *session) error {
		c := &claiming{s, family}
		if err := errors.Join(s.agrees(ctx), c.withinLimit()); err != nil {
			return err
		}
		if err := s.look(ctx); err != nil {
			return err
		}
		_, err := c.choose()
		return err
	})
}

// claiming is a claim of one more block of a family.
type claiming struct {
	s      *session
	family ipam.Family
}

func (c *claiming) claim(ctx context.Context) (ipam.Block, error) {
	s := c.s
	if err := s.agree(ctx); err != nil {
		return ipam.Block{}, err
	}
	if err := s.look(ctx); err != nil {
		return ipam.Block{}, err
	}
	if b, err := c.resolve(ctx); err != nil || b.IsValid() {
		return b, err
	}
	if err := c.withinLimit(); err != nil {
		return ipam.Block{}, err
	}
	for range claimAttempts {
		b, err := c.choose()
		if err != nil {
			return ipam.Block{}, err
		}
		r, err := s.intend(ctx, b)
		if err != nil {
			return ipam.Block{}, err
		}
		if held, err := s.resolveClaim(ctx, r); err != nil || held {
			return b, err
		}
		// Another host was first, and where many claim at once others were at other slots.
		if err := s.look(ctx); err != nil {
			return ipam.Block{}, err
		}
	}
	return ipam.Block{}, fmt.Errorf("%w: %d blocks were claimed by other hosts first", ipam.ErrExhausted, claimAttempts)
}

// withinLimit returns an error if the host may have no more blocks of the family.
func (c *claiming) withinLimit() error {
	n, config := 0, c.s.l.Config
	for _, r := range c.s.records.Blocks {
		if r.State != Lost && ipam.FamilyOf(r.Block.Addr()) == c.family {
			n++
		}
	}
	if n < config.MaxBlocks {
		return nil
	}
	return fmt.Errorf("%w: pool %s: this host has %d blocks of IPv%d, and maxBlocks is %d", ipam.ErrExhausted, config.Pool, n, c.family, config.MaxBlocks)
}

// resolve finishes the claims of the family whose outcome is not known, and returns a block that
// turns out to be held.
func (c *claiming) resolve(ctx context.Context) (ipam.Block, error) {
	for _, r := range slices.Clone(c.s.records.Blocks) {
		if r.State != Claiming || ipam.FamilyOf(r.Block.Addr()) != c.family {
			continue
		}
		held, err := c.s.resolveClaim(ctx, r)
		if errors.Is(err, ipam.ErrExhausted) {
			continue // it has to settle: another one is taken
		}
		if err != nil || held {
			return r.Block, err
		}
	}
	return ipam.Block{}, nil
}

// choose returns a free slot: the one that the instance has first, so that hosts that start at
// once do not collide, or a random one.
func (c *claiming) choose() (ipam.Block, error) {
	slots, pick := c.s.l.Config.Slots(c.family), c.s.l.pick
	count := slots.Count()
	if count == 0 {
		return ipam.Block{}, fmt.Errorf("%w: pool %s has no range of IPv%d", ipam.ErrInvalid, c.s.l.Config.Pool, c.family)
	}
	first := slots.At(firstSlot(c.s.host.Instance) % count)
	reason := c.claimable(first)
	if reason == nil {
		return first, nil
	}
	if count > fewSlots {
		for range guesses {
			if b := slots.At(pick(count)); c.claimable(b) == nil {
				return b, nil
			}
		}
		return ipam.Block{}, reason
	}
	var free []ipam.Block
	for i := range count {
		b := slots.At(i)
		if err := c.claimable(b); err == nil {
			free = append(free, b)
		} else if errors.Is(reason, errTaken) {
			reason = err // waiting for a block to settle says more
		}
	}
	if len(free) == 0 {
		return ipam.Block{}, fmt.Errorf("pool %s: none of %d blocks of IPv%d: %w", c.s.l.Config.Pool, count, c.family, reason)
	}
	return free[pick(uint64(len(free)))], nil
}

var errTaken = fmt.Errorf("%w: all are claimed", ipam.ErrExhausted)

func (c *claiming) claimable(b ipam.Block) error {
	s, path := c.s, c.s.path(b)
	_, listed := s.view.entries[path]
	if listed || s.records.find(b) >= 0 || s.l.Config.Capacity(b) == 0 {
		return errTaken
	}
	return s.view.free(s.now, path, settle)
}

func firstSlot(instance string) uint64 {
	sum := sha256.Sum256([]byte(instance))
	return binary.BigEndian.Uint64(sum[:8])
}

// intend records that a block is about to be requested.
func (s *session) intend(ctx context.Context, b ipam.Block) (Record, error) {
	r := s.reached(Record{Block: b, State: Claiming, Claim: s.l.machine.random(), NodeID: s.host.NodeID, Since: s.now.Time, Boot: s.host.Boot})
	return r, s.edit(ctx, func(all *records) error {
		if all.find(b) >= 0 {
			return fmt.Errorf("%s: %w", b, errChanged)
		}
		all.Blocks = append(all.Blocks, r)
		return nil
	})
}

// resolveClaim requests a block until it is known whose it is. False: another's.
func (s *session) resolveClaim(ctx context.Context, r Record) (held bool, err error) {
	path := s.path(r.Block)
	if err := s.view.free(s.now, path, settle); err != nil {
		return s.findClaim(ctx, r, err)
	}
	if _, listed := s.view.entries[path]; listed { // the answer to an earlier request was lost
		return s.findClaim(ctx, r, fmt.Errorf("block %s: %w", r.Block, ipam.ErrConflict))
	}
	now := s.reached(r)
	index, err := s.store.Create(ctx, path, s.content(now))
	if errors.Is(err, ipam.ErrConflict) {
		return s.findClaim(ctx, r, fmt.Errorf("block %s: %w", r.Block, err))
	}
	if err != nil {
		return false, fmt.Errorf("claim block %s: %w", r.Block, err)
	}
	return true, s.replace(ctx, r, now.as(Held, r.Claim, index))
}

// findClaim reads whose a requested block is. If it is in the store no more the request
// stays: an earlier one may still arrive.
func (s *session) findClaim(ctx context.Context, r Record, missing error) (held bool, err error) {
	o, err := s.owner(ctx, s.path(r.Block))
	switch {
	case err != nil:
		return false, fmt.Errorf("claim block %s: %w", r.Block, err)
	case o == nil:
		return false, missing
	case o.ours && s.place.isNew && !o.isKnown:
		return false, fmt.Errorf("%w: block %s may be that of a copy of this machine: it is taken %s after this machine was registered", ipam.ErrExhausted, r.Block, settle)
	case o.ours && o.mayBeOurs:
		if err := s.replace(ctx, r, r.found(o)); err != nil {
			return false, err
		}
		return true, s.announce(ctx)
	}
	s.view.note(s.path(r.Block), o.index)
	return false, s.drop(ctx, r)
}

// note adds what was found to be another's since the last listing.
func (v *view) note(path string, index uint64) {
	for _, m := range []*map[string]uint64{&v.Seen, &v.entries} {
		if *m == nil {
			*m = map[string]uint64{}
		}
		(*m)[path] = index
	}
}

func (r Record) as(s State, claim string, index uint64) Record {
	r.State, r.Claim, r.Index = s, claim, index
	return r
}

// found returns the record of a block that the store has as this host's, whichever of its
// claims that is.
func (r Record) found(o *owner) Record {
	if o.ClaimID != r.Claim || o.index < r.Index {
		r.Boot = "" // of lost records, of a copy of this machine, or of a store that was restored
	}
	r.NodeID, r.Endpoint = o.Host.NodeID, o.Endpoint
	return r.as(Held, o.ClaimID, o.index)
}
