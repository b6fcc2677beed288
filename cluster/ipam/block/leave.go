// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Leave gives back all blocks without leases, also those whose addresses cool down, and forgets
// where this host is reached: other hosts are to send it nothing any more. It returns what the
// host has no more, also with an error. It is one while a copy of this host can object.
func (l *Leases) Leave(ctx context.Context) ([]ipam.Block, error) {
	if err := os.Remove(l.pool.pathOf(endpointFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("forget the endpoint of this host: %w", err)
	}
	before, err := l.Overview()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(before.Blocks, func(r Record) bool { return r.State != Held }) {
		err = l.Verify(ctx) // resolves them
	}
	if err == nil {
		_, err = l.release(ctx, math.MinInt64, 0)
	}
	after, errRead := l.Overview()
	if errRead != nil {
		return nil, errors.Join(err, errRead)
	}
	var gone []ipam.Block
	for _, r := range before.Blocks {
		if !slices.ContainsFunc(after.Blocks, func(left Record) bool { return left.Block == r.Block }) {
			gone = append(gone, r.Block)
		}
	}
	return gone, err
}
