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

// code returns the code of the error of a store.
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

// observedStore reports each request to an observer.
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

func (s observedStore) observe(operation string, began time.Time, err error) {
	s.observer.StoreCall(operation, code(err), time.Since(began))
}

func (s observedStore) Get(ctx context.Context, path string) (ipam.Entry, error) {
	began := time.Now()
	e, err := s.Store.Get(ctx, path)
	s.observe("get", began, err)
	return e, err
}

// List does not report the duration of a request that waits for a change: it says nothing of
// the store.
func (s observedStore) List(ctx context.Context, prefix string, after uint64) (ipam.Listing, error) {
	began := time.Now()
	l, err := s.Store.List(ctx, prefix, after)
	operation := "list"
	if after > 0 {
		operation = "watch"
	}
	s.observe(operation, began, err)
	return l, err
}

func (s observedStore) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	began := time.Now()
	index, err := s.Store.Create(ctx, path, content)
	s.observe("create", began, err)
	if strings.HasPrefix(path, ipam.BlocksPrefix(s.pool)) {
		s.observer.Claim(s.pool, claimOutcome(err))
	}
	return index, err
}

func (s observedStore) Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	began := time.Now()
	index, err := s.Store.Update(ctx, path, content, index)
	s.observe("update", began, err)
	return index, err
}

func (s observedStore) Delete(ctx context.Context, path string, index uint64) error {
	began := time.Now()
	err := s.Store.Delete(ctx, path, index)
	s.observe("delete", began, err)
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
