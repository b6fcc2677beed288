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
		r := &recovery{s, s.host}
		blocks := r.unknown(addresses)
		if len(blocks) == 0 || s.host.NodeID == "" { // without a node they could never be adopted
			return s.view.write()
		}
		if err := s.agree(ctx); err != nil {
			return err // by another configuration they are no blocks
		}
		r.gone.Instance = l.machine.random()
		for _, b := range blocks {
			created, err := r.recover(ctx, b)
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
	self, err := l.machine.self()
	if err != nil {
		return false, err
	}
	now := l.machine.moment(self.Boot)
	v, err := readView(l.ledger.dir, now)
	isGone := func(path string) bool { _, gone := v.Gone[path]; return gone }
	return err == nil && (now.within(settle, v.Restored) || slices.ContainsFunc(v.Former, isGone)), err
}

// recovery creates entries of an instance that is gone.
type recovery struct {
	s    *session
	gone ipam.Host
}

// unknown returns the blocks of addresses that have neither an entry nor a record. Those without a record are noted: their
// entries may vanish later.
func (r *recovery) unknown(addresses []netip.Addr) (blocks []ipam.Block) {
	s, config := r.s, r.s.l.Config
	for _, a := range addresses {
		b, ok := config.BlockOf(a)
		if !ok || !config.Usable(a) || slices.Contains(blocks, b) || s.records.find(b) >= 0 {
			continue
		}
		s.view.had(s.path(b))
		if _, listed := s.view.entries[s.path(b)]; !listed {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// recover creates the entry of a block. False: another host was first.
func (r *recovery) recover(ctx context.Context, b ipam.Block) (created bool, err error) {
	s, config := r.s, r.s.l.Config
	index, err := s.store.Create(ctx, s.path(b), ipam.Encode(ipam.BlockContent{
		Pool: config.Pool, PoolHash: config.Hash(), Block: b, Host: r.gone, ClaimID: s.l.machine.random(), Claimed: s.now.Time,
		Endpoint: s.reached(Record{}).Endpoint,
	}))
	if errors.Is(err, ipam.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("recover block %s: %w", b, err)
	}
	s.l.Logger.Warn("namespaces of this host have addresses of a block that is unknown: it is claimed, and closed until it is unused", "pool", config.Pool, "block", b)
	s.view.note(s.path(b), index)
	return true, s.view.write()
}
