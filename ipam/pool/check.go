// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/ipam"
	"github.com/allocnet/allocnet/ipam/block"
)

// check requires a lease of an address, and the block it is from.
func (p *Pool) check(owner ipam.Owner, address netip.Addr, have []netip.Addr, held *block.Overview) error {
	if !slices.Contains(have, address) {
		return fmt.Errorf("%w: container %s, interface %s: want one of %s, and it has %v", ipam.ErrNoLease, owner.ContainerID, owner.Interface, address, have)
	}
	if !p.o.Config.Usable(address) {
		return nil // a reserved one, which Verify looks after
	}
	b, _ := p.o.Config.BlockOf(address)
	i := slices.IndexFunc(held.Blocks, func(r block.Record) bool { return r.Block == b })
	switch {
	case i < 0:
		return fmt.Errorf("%w: %s is of the block %s, which this host does not have", ipam.ErrNoLease, address, b)
	case held.Blocks[i].State == block.Lost:
		return fmt.Errorf("%w: %s is of the block %s, which another host owns", ipam.ErrNoLease, address, b)
	}
	return nil
}

// agreed requires the configuration that the store had when this host last read it.
func (p *Pool) agreed() error {
	held, err := p.blocks.Overview()
	if err == nil && errors.Is(held.Closed, ipam.ErrMismatch) {
		err = held.Closed
	}
	return err
}

// Status requires that an address of each family can be given out: that one is free, or that
// the store answers.
func (p *Pool) Status(ctx context.Context) error {
	usage, err := p.Usage(ctx)
	if err != nil {
		return err
	}
	if usage.Closed != nil {
		return usage.Closed
	}
	full := slices.DeleteFunc(usage.Families, func(f FamilyUsage) bool { return f.Free > 0 })
	if len(full) == 0 {
		return nil
	}
	store, _, err := p.o.Open()
	if err == nil {
		ctx, stop := context.WithTimeoutCause(ctx, claimTimeout, errSlow)
		defer stop()
		_, err = store.List(ctx, ipam.PoolPath(p.o.Config.Pool), 0)
	}
	if err != nil {
		return fmt.Errorf("%w: IPv%d of the pool %s, and the store is needed for a new block: %w", ipam.ErrExhausted, full[0].Family, p.o.Config.Pool, err)
	}
	return nil
}
