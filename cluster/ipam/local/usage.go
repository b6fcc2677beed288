// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/leases"
)

// Count are the addresses of a block.
type Count struct {
	// Used have a lease, Cooling are free but not yet to be given out, and Free can be given
	// out at once.
	Used, Cooling, Free int
	// Cool is until when the last of those with a lease or a history cools down, if it has no
	// lease. Zero: no address without a lease was ever given out.
	Cool time.Time
}

// Count counts the addresses of blocks.
func (a *Addresses) Count(ctx context.Context, blocks []ipam.Block) ([]Count, error) {
	if err := a.checkDataDir(); err != nil {
		return nil, err
	}
	unlock, err := a.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	leased, err := a.leased()
	if err != nil {
		return nil, err
	}
	counts := make([]Count, len(blocks))
	for i, b := range blocks {
		if counts[i], err = a.count(b, leased); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// Leased returns the addresses that have a lease, in no order.
func (a *Addresses) Leased(ctx context.Context) ([]netip.Addr, error) {
	var leased map[netip.Addr]bool
	err := a.locked(ctx, func(*leases.Store) (err error) {
		leased, err = a.leased()
		return err
	})
	return slices.Collect(maps.Keys(leased)), err
}

// LastUse returns how many leases a block has, and until when the last of its other addresses
// cools down; zero if none was ever given out. The lease lock is held.
func (a *Addresses) LastUse(b ipam.Block) (leased int, cool time.Time, err error) {
	all, err := a.leased()
	if err != nil {
		return 0, time.Time{}, err
	}
	c, err := a.count(b, all)
	return c.Used, c.Cool, err
}

// count corrects the history of a block, and counts. A lease of an address that is not for
// blocks to give out counts as well, unless it is a reserved one.
func (a *Addresses) count(b ipam.Block, leased map[netip.Addr]bool) (Count, error) {
	h, err := readHistory(a.dir, b)
	if err != nil {
		return Count{}, err
	}
	defer h.close()
	now := a.now()
	if err := h.normalize(now, h.leased(leased)); err != nil {
		return Count{}, err
	}
	var c Count
	for address := range leased {
		if b.Contains(address) && !a.config.IsReserved(address) {
			c.Used++
		}
	}
	for offset := range a.config.Offsets(b) {
		ready, _ := h.ready(offset, a.config.Cooldown)
		switch {
		case leased[ipam.At(b, offset)]:
			continue
		case ready.After(now):
			c.Cooling++
		default:
			c.Free++
		}
		if ready.After(c.Cool) {
			c.Cool = ready
		}
	}
	return c, nil
}
