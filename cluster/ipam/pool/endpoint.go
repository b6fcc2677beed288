// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// SetEndpoint records where this host is reached; see block.Leases.
func (p *Pool) SetEndpoint(ctx context.Context, e ipam.Endpoint) error {
	return p.blocks.SetEndpoint(ctx, e)
}
