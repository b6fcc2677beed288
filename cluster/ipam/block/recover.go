// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Recover creates the entries of blocks that neither the store nor this host knows, and of which
// namespaces of the host have addresses: the host has lost its state, and the store was restored
// from a snapshot. Without an entry another host would give the addresses out. The entries are
// those of an instance that is gone, so that the blocks are closed until Adopt takes them.
//
// It does something while the store is found to have been restored, and with always.
func (l *Leases) Recover(ctx context.Context, always bool, used func() ([]netip.Addr, error)) ([]ipam.Block, error) {
	if restored, err := l.foundRestored(); err != nil || !always && !restored {
		return nil, err
	}
	var recovered []ipam.Block
	err := l.withSole(ctx, func(s *session) error {
		if err := s.look(ctx); err != nil {
			return err
		}
		addresses, err := used()
		if err != nil {
			return err
		}
		blocks := s.unknown(addresses)
		if len(blocks) == 0 || s.host.NodeID == "" { // without a node they could never be adopted
			return s.writeView()
		}
		if err := s.agree(ctx); err != nil {
			return err // by another configuration they are no blocks
		}
		gone := s.host
		gone.Instance = s.random()
		for _, b := range blocks {
			created, err := s.recover(ctx, b, gone)
			if created {
				recovered = append(recovered, b)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return recovered, err
}

// foundRestored tells without the store whether it was lately found to have been restored, or to have lost what this node
// had before its state was lost.
func (l *Leases) foundRestored() (bool, error) {
	self, err := l.self()
	if err != nil {
		return false, err
	}
	now := l.moment(self.Boot)
	v, err := l.readView(now)
	isGone := func(path string) bool { _, gone := v.Gone[path]; return gone }
	return err == nil && (now.within(settle, v.Restored) || slices.ContainsFunc(v.Former, isGone)), err
}

// unknown returns the blocks of addresses that have neither an entry nor a record. Those without a record are noted: their
// entries may vanish later.
func (s *session) unknown(addresses []netip.Addr) (blocks []ipam.Block) {
	for _, a := range addresses {
		b, ok := s.Config.BlockOf(a)
		if !ok || !s.Config.Usable(a) || slices.Contains(blocks, b) || s.records.find(b) >= 0 {
			continue
		}
		s.view.had(s.path(b))
		if _, listed := s.view.entries[s.path(b)]; !listed {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// recover creates the entry of an instance that is gone. False: another host was first.
func (s *session) recover(ctx context.Context, b ipam.Block, gone ipam.Host) (created bool, err error) {
	index, err := s.store.Create(ctx, s.path(b), ipam.Encode(ipam.BlockContent{
		Pool: s.Config.Pool, PoolHash: s.Config.Hash(), Block: b, Host: gone, ClaimID: s.random(), Claimed: s.now.Time,
		Endpoint: s.reached(Record{}).Endpoint,
	}))
	if errors.Is(err, ipam.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("recover block %s: %w", b, err)
	}
	s.Logger.Warn("namespaces of this host have addresses of a block that is unknown: it is claimed, and closed until it is unused", "pool", s.Config.Pool, "block", b)
	s.view.note(s.path(b), index)
	return true, s.writeView()
}
