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

// agreeAttempts are made against others that change the configuration at the same time.
const agreeAttempts = 3

// agree makes sure that this host's configuration of the pool is that of all hosts. The first
// host stores its own; one with more ranges than the stored one has replaces it. What the store
// has is on record then, so that a configuration which is changed later is refused without it.
func (s *session) agree(ctx context.Context) (err error) {
	for range agreeAttempts {
		if err = s.tryAgree(ctx); !errors.Is(err, ipam.ErrConflict) {
			break
		}
	}
	return err
}

func (s *session) tryAgree(ctx context.Context) error {
	path, own := ipam.PoolPath(s.Config.Pool), s.Config.Content()
	stored, index, err := s.stored(ctx, path)
	switch {
	case errors.Is(err, ipam.ErrNotFound):
		if err := s.mismatch(s.records); err != nil {
			return err // what this host has belongs to the configuration on record
		}
		_, err = s.store.Create(ctx, path, ipam.Encode(own))
	case err != nil:
	case stored.Hash() == own.Hash():
	case own.Extends(stored):
		_, err = s.store.Update(ctx, path, ipam.Encode(own), index)
	default:
		return errors.Join(s.record(ctx, stored), s.differs(stored))
	}
	if err != nil {
		return err
	}
	return s.record(ctx, own)
}

func (s *session) stored(ctx context.Context, path string) (ipam.PoolContent, uint64, error) {
	entry, err := s.store.Get(ctx, path)
	if err != nil {
		return ipam.PoolContent{}, 0, err
	}
	stored, err := ipam.DecodePool(entry.Content, s.Config.Pool)
	if err != nil {
		return ipam.PoolContent{}, 0, fmt.Errorf("%s: %w", path, err)
	}
	return stored, entry.Index, nil
}

// record writes down the configuration that the store has.
func (s *session) record(ctx context.Context, stored ipam.PoolContent) error {
	if s.records.Agreed != nil && s.records.Agreed.Hash() == stored.Hash() {
		return nil
	}
	return s.edit(ctx, func(r *records) error { r.Agreed = &stored; return nil })
}

// mismatch returns an error for a configuration by which the blocks on record must not be used.
// One with fewer ranges is right as long as it has all of these blocks: ranges are appended on
// one host after the other.
func (l *Leases) mismatch(r *records) error {
	own := l.Config.Content()
	if r.Agreed == nil || r.Agreed.Hash() == own.Hash() || own.Extends(*r.Agreed) {
		return nil
	}
	isForeign := func(r Record) bool {
		_, ok := l.Config.Slots(ipam.FamilyOf(r.Block.Addr())).Index(r.Block)
		return !ok
	}
	if r.Agreed.Extends(own) && !slices.ContainsFunc(r.Blocks, isForeign) {
		return nil
	}
	return l.differs(*r.Agreed)
}

// differs is the error of a configuration that is not that of the other hosts.
func (l *Leases) differs(others ipam.PoolContent) error {
	return fmt.Errorf("%w: pool %s: this host has %s, and the store %s; ranges may be appended, for other changes see \"Change a pool\" in docs/ipam.md",
		ipam.ErrMismatch, l.Config.Pool, l.Config.Content(), others)
}
