// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"fmt"

	"github.com/allocnet/allocnet/ipam"
)

// agree makes sure that this host's configuration of the pool is that of all hosts. The first
// host stores its own; one with more ranges than the stored one has replaces it.
func (s *session) agree(ctx context.Context) error {
	path, own := ipam.PoolPath(s.Config.Pool), s.Config.Content()
	entry, err := s.store.Get(ctx, path)
	if errors.Is(err, ipam.ErrNotFound) {
		if _, err = s.store.Create(ctx, path, ipam.Encode(own)); !errors.Is(err, ipam.ErrConflict) {
			return err
		}
		entry, err = s.store.Get(ctx, path)
	}
	if err != nil {
		return err
	}
	stored, err := ipam.DecodePool(entry.Content, s.Config.Pool)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case stored.Hash() == own.Hash():
		return nil
	case own.Extends(stored):
		_, err := s.store.Update(ctx, path, ipam.Encode(own), entry.Index)
		return err
	}
	return fmt.Errorf("%w: pool %s: this host has %s, and the store %s", ipam.ErrMismatch, s.Config.Pool, own, stored)
}
