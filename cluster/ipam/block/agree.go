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
	path, own := ipam.PoolPath(s.l.Config.Pool), s.l.Config.Content()
	stored, index, err := s.stored(ctx)
	switch {
	case errors.Is(err, ipam.ErrNotFound):
		if err := s.records.mismatch(s.l.Config); err != nil {
			return err // what this host has belongs to the configuration on record
		}
		_, err = s.store.Create(ctx, path, ipam.Encode(own))
	case err != nil:
	case stored.Hash() == own.Hash():
	case own.Extends(stored):
		_, err = s.store.Update(ctx, path, ipam.Encode(own), index)
	default:
		return errors.Join(s.record(ctx, stored), differs(s.l.Config, stored))
	}
	if err != nil {
		return err
	}
	return s.record(ctx, own)
}

// agrees returns an error if agree would find another configuration in the store.
func (s *session) agrees(ctx context.Context) error {
	own := s.l.Config.Content()
	stored, _, err := s.stored(ctx)
	switch {
	case errors.Is(err, ipam.ErrNotFound):
		return s.records.mismatch(s.l.Config)
	case err != nil || stored.Hash() == own.Hash() || own.Extends(stored):
		return err
	}
	return differs(s.l.Config, stored)
}

func (s *session) stored(ctx context.Context) (ipam.PoolContent, uint64, error) {
	path := ipam.PoolPath(s.l.Config.Pool)
	entry, err := s.store.Get(ctx, path)
	if err != nil {
		return ipam.PoolContent{}, 0, err
	}
	stored, err := ipam.DecodePool(entry.Content, s.l.Config.Pool)
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
func (r *records) mismatch(config *ipam.Config) error {
	own := config.Content()
	if r.Agreed == nil || r.Agreed.Hash() == own.Hash() || own.Extends(*r.Agreed) {
		return nil
	}
	isForeign := func(r Record) bool {
		_, ok := config.Slots(ipam.FamilyOf(r.Block.Addr())).Index(r.Block)
		return !ok
	}
	if r.Agreed.Extends(own) && !slices.ContainsFunc(r.Blocks, isForeign) {
		return nil
	}
	return differs(config, *r.Agreed)
}

// differs is the error of a configuration that is not that of the other hosts.
func differs(config *ipam.Config, others ipam.PoolContent) error {
	return fmt.Errorf("%w: pool %s: this host has %s, and the store %s; ranges may be appended, for other changes see \"Change a pool\" in docs/ipam.md",
		ipam.ErrMismatch, config.Pool, config.Content(), others)
}
