// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Observer counts what pools do.
type Observer interface {
	// StoreCall is a request to the store. The code is done, not_found, conflict, refused,
	// unavailable, timeout or failed.
	StoreCall(operation, code string, took time.Duration)
	// Claim is an attempt to claim a block of a pool. The outcome is "claimed", "taken" by
	// another host, or the code of an error.
	Claim(pool, outcome string)
}

func code(err error) string {
	if err == nil {
		return "done"
	}
	for _, of := range []struct {
		cause error
		code  string
	}{
		{ipam.ErrNotFound, "not_found"},
		{ipam.ErrConflict, "conflict"},
		{ipam.ErrRefused, "refused"},
		{context.DeadlineExceeded, "timeout"},
		{ipam.ErrUnavailable, "unavailable"},
	} {
		if errors.Is(err, of.cause) {
			return of.code
		}
	}
	return "failed"
}

// Observe returns a store that reports each request, and each claim of a block of the pool.
func Observe(s ipam.Store, pool string, o Observer) ipam.Store {
	return observedStore{s, pool, o}
}

type observedStore struct {
	ipam.Store
	pool     string
	observer Observer
}

// Stale returns the store with reads that may be old; see ipam.Stale.
func (s observedStore) Stale() ipam.Store {
	return observedStore{ipam.Stale(s.Store), s.pool, s.observer}
}

// Private tells whether no other machine uses the store; see ipam.IsPrivate.
func (s observedStore) Private() bool { return ipam.IsPrivate(s.Store) }

func observed[T any](s observedStore, operation string, do func() (T, error)) (T, error) {
	began := time.Now()
	value, err := do()
	s.observer.StoreCall(operation, code(err), time.Since(began))
	return value, err
}

func (s observedStore) Get(ctx context.Context, path string) (ipam.Entry, error) {
	return observed(s, "get", func() (ipam.Entry, error) { return s.Store.Get(ctx, path) })
}

// List has an operation of its own for a request that waits for a change: its duration says nothing of the store.
func (s observedStore) List(ctx context.Context, prefix string, after uint64) (ipam.Listing, error) {
	operation := "list"
	if after > 0 {
		operation = "watch"
	}
	return observed(s, operation, func() (ipam.Listing, error) { return s.Store.List(ctx, prefix, after) })
}

func (s observedStore) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	index, err := observed(s, "create", func() (uint64, error) { return s.Store.Create(ctx, path, content) })
	if strings.HasPrefix(path, ipam.BlocksPrefix(s.pool)) {
		s.observer.Claim(s.pool, claimOutcome(err))
	}
	return index, err
}

func (s observedStore) Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	return observed(s, "update", func() (uint64, error) { return s.Store.Update(ctx, path, content, index) })
}

func (s observedStore) Delete(ctx context.Context, path string, index uint64) error {
	_, err := observed(s, "delete", func() (struct{}, error) { return struct{}{}, s.Store.Delete(ctx, path, index) })
	return err
}

func claimOutcome(err error) string {
	switch {
	case err == nil:
		return "claimed"
	case errors.Is(err, ipam.ErrConflict):
		return "taken"
	}
	return code(err)
}
