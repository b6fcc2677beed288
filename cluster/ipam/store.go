// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"context"
	"errors"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// Store keeps the entries of pools for all hosts of a cluster. Each entry has an index, which
// is another one after each change and never that of an earlier content, so that a change can
// be made on condition that the entry is as it was read.
//
// Errors wrap one of the errors below. Of a change that fails with any error but ErrConflict,
// ErrNotFound and ErrRefused, the outcome is unknown: it may have been made, and may still be.
// A Store may be used concurrently.
type Store interface {
	// Get returns an entry, or ErrNotFound.
	Get(ctx context.Context, path string) (Entry, error)
	// List returns the entries whose paths begin with the prefix, without their contents. With
	// an index of an earlier Listing it waits until the listing has another index, or for a
	// while (at most 10 s); with 0 it answers at once.
	List(ctx context.Context, prefix string, after uint64) (Listing, error)
	// Create makes an entry and returns its index, or ErrConflict if there is one.
	Create(ctx context.Context, path string, content []byte) (uint64, error)
	// Update replaces the content of an entry and returns its new index. ErrConflict: the entry
	// is missing or has another index.
	Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error)
	// Delete removes an entry. ErrConflict: the entry has another index. A missing entry is
	// no error.
	Delete(ctx context.Context, path string, index uint64) error
}

// Stale returns a store whose reads may be old, usually by less than a second, if s has such reads:
// they cost the leader of its servers nothing. An index may be lower than one that was read before.
// Other stores are returned as they are.
func Stale(s Store) Store {
	if r, ok := s.(interface{ Stale() Store }); ok {
		return r.Stale()
	}
	return s
}

// IsPrivate tells whether a store is this machine's alone, so that no other can object in it.
func IsPrivate(s Store) bool {
	p, ok := s.(interface{ Private() bool })
	return ok && p.Private()
}

// Entry is an entry of a store.
type Entry struct {
	Path    string
	Content []byte
	Index   uint64
}

// Listing are the paths and indexes of entries.
type Listing struct {
	// Index is the listing's own. It grows with each change below the prefix; a lower one than
	// before means that the store has been restored from a snapshot.
	Index uint64
	// Entries are sorted by Path and have no Content.
	Entries []Entry
}

// Errors of a Store.
var (
	ErrNotFound = errors.New("the store has no such entry")
	ErrConflict = errdefs.New(errdefs.Conflict, "the entry was changed by another")
	// ErrRefused is a lack of rights (403). Nothing was done.
	ErrRefused = errdefs.New(errdefs.Unavailable, "the store refuses access")
	// ErrNoNamespace is a namespace that does not exist. Nothing was done.
	ErrNoNamespace = errdefs.New(errdefs.Unavailable, "the namespace of the store does not exist")
	// ErrUnavailable is a store that did not answer, or has no leader.
	ErrUnavailable = errdefs.New(errdefs.Unavailable, "the store is unavailable")
)
