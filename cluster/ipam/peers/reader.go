// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package peers

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// mostReads is how many contents are read at a time.
const mostReads = 8

// reader reads from a store what may be old. What contradicts something newer is read again, as
// it is now.
type reader struct {
	// stale is for reads that may be old, and now for the others.
	stale, now ipam.Store
}

// list lists blocks, and waits until they change if it is told to. A listing with a lower index
// than the last one is that of a store that was restored, and not of a server that is behind. One
// without a last one may not be old: a server that has just started does not know of all blocks, and
// the routes to the others would be removed.
func (r reader) list(ctx context.Context, prefix string, last uint64, wait bool) (ipam.Listing, error) {
	if last == 0 {
		return r.now.List(ctx, prefix, 0)
	}
	after := uint64(0)
	if wait {
		after = last
	}
	listing, err := r.stale.List(ctx, prefix, after)
	if err == nil && listing.Index < last {
		return r.now.List(ctx, prefix, 0)
	}
	return listing, err
}

// get reads what was listed.
func (r reader) get(ctx context.Context, listed ipam.Entry) (ipam.Entry, error) {
	got, err := r.stale.Get(ctx, listed.Path)
	if errors.Is(err, ipam.ErrNotFound) || err == nil && got.Index < listed.Index {
		return r.now.Get(ctx, listed.Path)
	}
	return got, err
}

// readAll reads the contents of what was listed, a few at a time. What is there no more is left
// out. After an error it returns what it has read.
func (r reader) readAll(ctx context.Context, listed []ipam.Entry) ([]ipam.Entry, error) {
	group, limited := errgroup.WithContext(ctx) // after one has failed the others would fail as well
	group.SetLimit(mostReads)
	var mu sync.Mutex // guards contents
	var contents []ipam.Entry
	for _, e := range listed {
		if limited.Err() != nil {
			break
		}
		group.Go(func() error {
			got, err := r.get(limited, e)
			if errors.Is(err, ipam.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			contents = append(contents, got)
			return nil
		})
	}
	err := group.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return contents, err
}
