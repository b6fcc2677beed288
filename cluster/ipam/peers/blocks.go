// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package peers

import (
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Blocks are those of a pool. No two of Own and Remote have an address in common.
type Blocks struct {
	// Own are those of this host's instance, sorted.
	Own []ipam.Block
	// Remote are those of other hosts, sorted by block.
	Remote []Remote
	// Invalid are what is no block that packets can be sent to, sorted by path.
	Invalid []Invalid
}

// Remote is a block of another host.
type Remote struct {
	Block ipam.Block
	Host  ipam.Host
	// Endpoint is valid, and what the host says: it may be that of another one.
	Endpoint ipam.Endpoint
	// Index is that of the store's content.
	Index uint64
}

// Invalid is a path that is no block of another host, and why.
type Invalid struct {
	Path string
	Err  error
}

func (b *Blocks) sort() {
	slices.SortFunc(b.Own, ipam.Block.Compare)
	slices.SortFunc(b.Remote, func(x, y Remote) int { return x.Block.Compare(y.Block) })
	slices.SortFunc(b.Invalid, func(x, y Invalid) int { return strings.Compare(x.Path, y.Path) })
}
