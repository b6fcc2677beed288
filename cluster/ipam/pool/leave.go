// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Leave gives back the blocks without leases, and forgets where this host is reached; see
// block.Leases.
func (p *Pool) Leave(ctx context.Context) ([]ipam.Block, error) { return p.blocks.Leave(ctx) }
