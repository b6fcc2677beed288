// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadstore

import (
	"context"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/rest"
)

// mostLag is for how long a server that answers may not have heard of the leader: what it knows is
// nearly as new as what the leader does. Elections take less.
const mostLag = 5 * time.Second

// staleStore is a Store whose reads any server answers.
type staleStore struct{ *Store }

var _ ipam.Store = staleStore{}

// Stale returns the store with reads that any server answers, and not the leader alone. They may
// be old, usually by less than a second, and an index may be lower than one that was read before.
// What must not be old is read from the Store itself.
func (s *Store) Stale() ipam.Store { return staleStore{s} }

// Get implements ipam.Store.
func (s staleStore) Get(ctx context.Context, path string) (ipam.Entry, error) {
	return s.get(ctx, path, s.do)
}

// List implements ipam.Store.
func (s staleStore) List(ctx context.Context, prefix string, after uint64) (ipam.Listing, error) {
	return s.list(ctx, prefix, after, s.do)
}

// do asks the leader if the server that answers is cut from it.
func (s staleStore) do(ctx context.Context, r rest.Request) (rest.Answer, error) {
	r.Query.Set("stale", "")
	answer, err := s.Store.do(ctx, r)
	if err != nil || answer.LastContact <= mostLag {
		return answer, err
	}
	r.Query.Del("stale")
	r.Query.Del("index")
	r.Wait = 0
	return s.Store.do(ctx, r)
}
