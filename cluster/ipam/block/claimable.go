// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Claimable returns why Claim would fail now. Nil: there is a free block. It only reads from
// the store.
func (l *Leases) Claimable(ctx context.Context, family ipam.Family) error {
	return l.withReader(ctx, func(s *session) error {
		if err := errors.Join(s.agrees(ctx), s.withinLimit(family)); err != nil {
			return err
		}
		if err := s.look(ctx); err != nil {
			return err
		}
		_, err := s.choose(family)
		return err
	})
}

// agrees returns an error if agree would find another configuration in the store.
func (s *session) agrees(ctx context.Context) error {
	own := s.Config.Content()
	stored, _, err := s.stored(ctx, ipam.PoolPath(s.Config.Pool))
	switch {
	case errors.Is(err, ipam.ErrNotFound):
		return s.mismatch(s.records)
	case err != nil || stored.Hash() == own.Hash() || own.Extends(stored):
		return err
	}
	return s.differs(stored)
}
