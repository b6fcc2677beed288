// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"

	"github.com/allocnet/allocnet/ipam"
)

// Claimable returns why Claim would fail now. Nil: there is a free block. It only reads from
// the store.
func (l *Leases) Claimable(ctx context.Context, family ipam.Family) error {
	unlock, err := l.pool.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s := &session{Leases: l}
	if s.store, s.host, err = l.Connect(); err != nil {
		return err
	}
	s.now = l.moment(s.host.Boot)
	if err := s.load(ctx); err != nil {
		return err
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	_, err = s.choose(family)
	return err
}
