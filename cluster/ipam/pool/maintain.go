// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
)

const (
	// freeShare is the least part of a family's addresses that is free without another block
	// being claimed: one in so many.
	freeShare = 4
	// idleTime is for how long all addresses of a block could have been given out before it
	// is released.
	idleTime = 10 * time.Minute
)

// Maintained is what Maintain did.
type Maintained struct {
	// Claimed and Released are blocks of this host.
	Claimed, Released []ipam.Block
}

// Maintain does what is not for attachments to wait for: it claims a block when less than 25 %
// of a family is free, releases blocks that are idle, and gives back reserved addresses. If
// networks of the pool span hosts, that block has to wait until it is known where this host is
// reached: other hosts could do nothing with it.
func (p *Pool) Maintain(ctx context.Context) (Maintained, error) {
	var m Maintained
	var errs []error
	for _, f := range p.o.Config.BlockFamilies() {
		claimed, err := p.claimAhead(ctx, f)
		if claimed.IsValid() {
			m.Claimed = append(m.Claimed, claimed)
		}
		errs = append(errs, err)
	}
	usage, err := p.Usage(ctx)
	errs = append(errs, err)
	if err == nil {
		m.Released, err = p.blocks.Release(ctx, idleTime, p.spare(usage))
		errs = append(errs, err, p.reserved.Finish(ctx))
	}
	return m, errors.Join(errs...)
}

// claimAhead claims a block of a family if little of it is free. It looks again when no other
// process claims.
func (p *Pool) claimAhead(ctx context.Context, f ipam.Family) (ipam.Block, error) {
	low, _, err := p.isLow(ctx, f)
	if err != nil || !low {
		return ipam.Block{}, err
	}
	if p.o.Config.Mode != ipam.ModeFlat {
		if reached, err := p.blocks.IsReached(); err != nil || !reached {
			return ipam.Block{}, err
		}
	}
	unlock, err := p.lock(ctx, "claim.lock")
	if err != nil {
		return ipam.Block{}, err
	}
	defer unlock()
	low, held, err := p.isLow(ctx, f)
	if err != nil || !low {
		return ipam.Block{}, err
	}
	return p.blocks.Claim(ctx, f, held)
}

// isLow tells whether a family needs another block than those that the host has.
func (p *Pool) isLow(ctx context.Context, f ipam.Family) (low bool, held []ipam.Block, err error) {
	usage, err := p.openUsage(ctx)
	if err != nil {
		return false, nil, err
	}
	for _, b := range usage.Blocks {
		if b.State == string(block.Held) {
			held = append(held, b.Block)
		}
	}
	c := usage.family(f)
	return c.Free*freeShare < c.Used+c.Cooling+c.Free || c.Free == 0, held, nil
}

// openUsage returns what this host has, verified if it was not for long, and fails if no address of
// it may be given out.
func (p *Pool) openUsage(ctx context.Context) (Usage, error) {
	usage, err := p.Usage(ctx)
	if err == nil && usage.Fenced {
		if err = p.blocks.Verify(ctx); err == nil {
			usage, err = p.Usage(ctx)
		}
	}
	return usage, errors.Join(err, usage.Closed)
}

// spare returns how many empty blocks of a family are kept: enough that releasing one is no
// reason to claim one.
func (p *Pool) spare(u Usage) int {
	if p.o.Config.PublishedOnly {
		return 0
	}
	used := map[ipam.Family]int{}
	spare := 1
	for _, b := range u.Blocks {
		if b.State == string(block.Held) && b.Used+b.Cooling > 0 {
			f := ipam.FamilyOf(b.Block.Addr())
			used[f]++
			spare = max(spare, 1+used[f]/2)
		}
	}
	return spare
}

// Verified is what Verify found.
type Verified struct {
	// Index is for the next call.
	Index uint64
	// Lost are blocks, and Addresses are reserved addresses, that the store says another host
	// has: they may be in use twice.
	Lost      []ipam.Block
	Addresses []netip.Addr
}

// Verify compares what this host has with the store, and creates again what is missing there.
// It finishes what earlier processes left undone. With the index of an earlier call it first
// waits for a change, for at most 10 s.
func (p *Pool) Verify(ctx context.Context, after uint64) (v Verified, err error) {
	if v.Index, err = p.blocks.Watch(ctx, after); err != nil {
		p.reserved.Distrust()
		return v, err
	}
	if err = p.blocks.Verify(ctx); err != nil {
		p.reserved.Distrust()
	}
	if held, errRead := p.blocks.Overview(); errRead == nil {
		for _, r := range held.Blocks {
			if r.State == block.Lost {
				v.Lost = append(v.Lost, r.Block)
			}
		}
	}
	if len(p.o.Config.Reserved) == 0 {
		return v, err
	}
	found, errReserved := p.reserved.Verify(ctx)
	v.Addresses = found.Lost
	return v, errors.Join(err, errReserved)
}

// Reclaim takes back what nodes had that are gone, by Options.Holder, for Options.Grace.
func (p *Pool) Reclaim(ctx context.Context) ([]ipam.Block, []netip.Addr, error) {
	if p.o.Holder == nil {
		return nil, nil, nil
	}
	blocks, err := p.reclaim(ctx, p.o.Grace, p.o.Holder.Gone)
	if len(p.o.Config.Reserved) == 0 {
		return blocks, nil, err
	}
	addresses, errReserved := p.reserved.Reclaim(ctx)
	return blocks, addresses, errors.Join(err, errReserved)
}

func (p *Pool) reclaim(ctx context.Context, grace time.Duration, gone func(context.Context, string) (bool, error)) ([]ipam.Block, error) {
	reclaimed, err := p.blocks.Reclaim(ctx, grace, gone)
	var blocks []ipam.Block
	for _, r := range reclaimed {
		p.o.Logger.Info("reclaimed a block", "block", r.Block, "node", r.Host.NodeID, "name", r.Host.NodeName)
		blocks = append(blocks, r.Block)
	}
	return blocks, err
}

// ReleaseNode takes back what a node had, by an operator's word that it is gone.
func (p *Pool) ReleaseNode(ctx context.Context, nodeID string) ([]ipam.Block, []netip.Addr, error) {
	if nodeID == "" {
		return nil, nil, fmt.Errorf("%w: node %q: want the ID of a node", ipam.ErrInvalid, nodeID)
	}
	blocks, err := p.reclaim(ctx, 0, func(_ context.Context, id string) (bool, error) { return id == nodeID, nil })
	addresses, errReserved := p.reserved.ReleaseNode(ctx, nodeID)
	return blocks, addresses, errors.Join(err, errReserved)
}

// Adopting tells whether Adopt has found blocks unused once. It takes them when it finds them so
// again, 40 s later.
func (p *Pool) Adopting() (bool, error) { return p.blocks.Adopting() }

// Adopt takes back what an earlier state directory of this node had, if inUse says twice that no
// namespace of the host has an address of the prefix.
func (p *Pool) Adopt(ctx context.Context, inUse func(netip.Prefix) (bool, error)) ([]ipam.Block, []netip.Addr, error) {
	blocks, err := p.blocks.Adopt(ctx, inUse)
	if len(p.o.Config.Reserved) == 0 {
		return blocks, nil, err
	}
	addresses, errReserved := p.reserved.Adopt(ctx, func(a netip.Addr) (bool, error) {
		return inUse(netip.PrefixFrom(a, a.BitLen()))
	})
	return blocks, addresses, errors.Join(err, errReserved)
}

// Recover claims blocks that only namespaces of the host know, because the state of the host and
// the store's were lost; see block.Leases.
func (p *Pool) Recover(ctx context.Context, always bool, used func() ([]netip.Addr, error)) ([]ipam.Block, error) {
	return p.blocks.Recover(ctx, always, used)
}

// SetEndpoint records where this host is reached; see block.Leases.
func (p *Pool) SetEndpoint(ctx context.Context, e ipam.Endpoint) error {
	return p.blocks.SetEndpoint(ctx, e)
}

// Leave gives back the blocks without leases, and forgets where this host is reached; see
// block.Leases.
func (p *Pool) Leave(ctx context.Context) ([]ipam.Block, error) { return p.blocks.Leave(ctx) }

// Reserve keeps a reserved address for a job before an allocation has it.
func (p *Pool) Reserve(ctx context.Context, address netip.Addr, job ipam.Job) error {
	if err := ipam.ValidateKey(job.Key); err != nil {
		return err
	}
	return p.reserved.Reserve(ctx, address, job)
}

// Unreserve ends that a reserved address is kept for a job.
func (p *Pool) Unreserve(ctx context.Context, address netip.Addr) error {
	return p.reserved.Unreserve(ctx, address)
}
