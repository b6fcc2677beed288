// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/ipam"
)

// Usage is what this host has of a pool.
type Usage struct {
	Families []FamilyUsage
	Blocks   []BlockUsage
	// Reserved are the reserved addresses that attachments of this host have.
	Reserved []netip.Addr
	// Verified is when this host last knew that its blocks are its own. Zero: never.
	Verified time.Time
	// Fenced is whether it gives out no new address because that is too long ago.
	Fenced bool
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
func (p *Pool) Usage(ctx context.Context) (Usage, error) { return Usage{}, errStub }

// Overview is a pool as the store has it.
type Overview struct {
	// Content is the configuration. Nil: no host has used the pool.
	Content   *ipam.PoolContent
	Blocks    []BlockEntry
	Addresses []AddressEntry
	// Unknown are entries that are not understood. What they govern counts as used.
	Unknown []UnknownEntry
}

// BlockEntry is the entry of a block.
type BlockEntry struct {
	ipam.BlockContent
	Index uint64
}

// AddressEntry is the entry of a reserved address.
type AddressEntry struct {
	ipam.AddressContent
	Index uint64
}

// UnknownEntry is an entry that is not understood.
type UnknownEntry struct {
	Path string
	Err  error
}

// Show returns the whole pool.
func (p *Pool) Show(ctx context.Context) (Overview, error) { return Overview{}, errStub }
