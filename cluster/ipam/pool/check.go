// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
)

// check requires a lease of an address, and the block it is from.
func check(c *ipam.Config, owner ipam.Owner, address netip.Addr, have []netip.Addr, held *block.Overview) error {
	if !slices.Contains(have, address) {
		return fmt.Errorf("%w: container %s, interface %s: want one of %s, and it has %v", ipam.ErrNoLease, owner.ContainerID, owner.Interface, address, have)
	}
	if !c.Usable(address) {
		return nil // a reserved one, which Verify looks after
	}
	b, _ := c.BlockOf(address)
	i := slices.IndexFunc(held.Blocks, func(r block.Record) bool { return r.Block == b })
	switch {
	case i < 0:
		return fmt.Errorf("%w: %s is of the block %s, which this host does not have", ipam.ErrNoLease, address, b)
	case held.Blocks[i].State == block.Lost:
		return fmt.Errorf("%w: %s is of the block %s, which another host owns, or owned meanwhile", ipam.ErrNoLease, address, b)
	}
	return nil
}

// agreed requires the configuration that the store had when this host last read it.
func (p *Pool) agreed() (*block.Overview, error) {
	held, err := p.blocks.Overview()
	if err == nil && errors.Is(held.Closed, ipam.ErrMismatch) {
		err = held.Closed
	}
	return held, err
}

// Status requires that an address of each family can be given out: that one is free, or that
// the store has a free block. It claims nothing.
func (p *Pool) Status(ctx context.Context) error {
	if err := p.local.Writable(); err != nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, claimTimeout, errSlow)
	defer stop()
	usage, err := p.openUsage(ctx)
	if err != nil {
		return withCause(ctx, err)
	}
	for _, f := range usage.Families {
		if f.Free > 0 && usage.Waiting == "" {
			continue
		}
		if err := p.blocks.Claimable(ctx, f.Family); err != nil {
			full := fmt.Errorf("%w: IPv%d of the pool %s", ipam.ErrExhausted, f.Family, p.o.Config.Pool)
			return unclaimed(withCause(ctx, err), full, usage.Waiting)
		}
	}
	return nil
}
