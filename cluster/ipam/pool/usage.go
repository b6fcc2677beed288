// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
)

// Usage is what this host has of a pool.
type Usage struct {
	// Families has all families of the pool.
	Families []FamilyUsage
	Blocks   []BlockUsage
	// Reserved are the reserved addresses that attachments of this host have.
	Reserved []netip.Addr
	// Conflicts is how many addresses other hosts were found to use before this one gave them
	// out, since the state directory was made.
	Conflicts uint64
	// Verified is when this host last knew that its blocks are its own. Zero: never.
	Verified time.Time
	// Closed is why no new address of the host's blocks is given out: ipam.ErrTwin,
	// ipam.ErrMismatch or ipam.ErrFenced. Nil: it is.
	Closed error
	// Fenced is whether it is ipam.ErrFenced.
	Fenced bool
	// Waiting is what blocks that the host had before its boot wait for before their addresses are
	// given out. Empty: nothing.
	Waiting string
	// Copied: a copy of this machine was refused within the last hour.
	Copied bool
}

// FamilyUsage is the sum of a family's blocks.
type FamilyUsage struct {
	Family ipam.Family
	Blocks int
	Count
}

// BlockUsage is a block of this host.
type BlockUsage struct {
	Block ipam.Block
	// State is claiming, held, releasing or lost.
	State string
	Count
}

// Count are numbers of addresses. Free ones can be given out at once; only blocks that are
// held have some.
type Count struct {
	Used, Cooling, Free int
}

// Usage returns what this host has. It does not use the store.
func (p *Pool) Usage(ctx context.Context) (Usage, error) {
	held, err := p.overview(ctx)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Verified: held.Verified, Waiting: held.Waiting, Copied: held.Copied}
	if len(held.Blocks) > 0 || !errors.Is(held.Closed, ipam.ErrFenced) {
		u.Closed, u.Fenced = held.Closed, errors.Is(held.Closed, ipam.ErrFenced)
	}
	blocks := make([]ipam.Block, len(held.Blocks))
	for i, r := range held.Blocks {
		blocks[i] = r.Block
	}
	counts, err := p.local.Count(ctx, blocks)
	if err != nil {
		return Usage{}, err
	}
	for i, r := range held.Blocks {
		c := Count{Used: counts[i].Used, Cooling: counts[i].Cooling}
		if r.State == block.Held {
			c.Free = counts[i].Free
		}
		u.Blocks = append(u.Blocks, BlockUsage{r.Block, string(r.State), c})
	}
	for _, f := range p.o.Config.BlockFamilies() {
		u.Families = append(u.Families, u.sum(f))
	}
	if u.Conflicts, err = p.conflicts.read(); err != nil {
		p.o.Logger.Debug("read the number of addresses in use elsewhere", "error", err) // begins at 0 again
	}
	leased, err := p.local.Leased(ctx)
	u.Reserved = slices.DeleteFunc(leased, func(a netip.Addr) bool { return !p.o.Config.IsReserved(a) })
	slices.SortFunc(u.Reserved, netip.Addr.Compare)
	return u, err
}

// overview reads the records while no process writes them.
func (p *Pool) overview(ctx context.Context) (*block.Overview, error) {
	unlock, err := p.local.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return p.blocks.Overview()
}

func (u *Usage) sum(f ipam.Family) FamilyUsage {
	s := FamilyUsage{Family: f}
	for _, b := range u.Blocks {
		if ipam.FamilyOf(b.Block.Addr()) == f {
			s.Blocks++
			s.Used, s.Cooling, s.Free = s.Used+b.Used, s.Cooling+b.Cooling, s.Free+b.Free
		}
	}
	return s
}

func (u *Usage) family(f ipam.Family) Count {
	for _, s := range u.Families {
		if s.Family == f {
			return s.Count
		}
	}
	return Count{}
}
