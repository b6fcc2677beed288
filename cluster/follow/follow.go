// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package follow reads entries of a store as they change: each once, and a few at a time. A store that was restored, or that has not
// answered, is read again.
//
// Reads may be old (ipam.Stale): what contradicts something newer is read again, as it is now.
package follow

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Entries are those with a prefix. They are not for concurrent use.
type Entries[T any] struct {
	prefix string
	wanted func(path string) bool
	decode func(ipam.Entry) T
	// Reads is how many entries are read at a time.
	Reads int
	// index is that of the last listing. 0: there is none.
	index uint64
	// IsCurrent: nothing has failed since the last listing, so that the next one waits for a change.
	IsCurrent bool
	// Written is the index of this host's last change.
	Written uint64
	// Listed are the indexes of the entries, and Known what was read of those that are wanted, by path.
	Listed map[string]uint64
	Known  map[string]Entry[T]
}

// Entry is what was read at a path.
type Entry[T any] struct {
	Index uint64
	// Content is what the decoder has made of it.
	Content T
	// Read is when it was.
	Read time.Time
	// doubted: the store has not answered since it was read.
	doubted bool
}

const (
	// mostReads is how many entries are read at a time.
	mostReads = 8
	// mostDoubted is how many entries are read again after each listing in which they have not changed: all hosts doubt at the same
	// time, and the servers have just come back.
	mostDoubted = 16
)

// New returns entries of which those with a wanted path are read and decoded: others have written them, and all of what decode
// returns is kept. It reads nothing.
func New[T any](prefix string, wanted func(path string) bool, decode func(ipam.Entry) T) *Entries[T] {
	return &Entries[T]{prefix: prefix, wanted: wanted, decode: decode, Reads: mostReads, Listed: map[string]uint64{}, Known: map[string]Entry[T]{}}
}

// Newest is the highest index that is known of the store.
func (e *Entries[T]) Newest() uint64 { return max(e.index, e.Written) }

// Doubt has all read again, a few at a time: a store that has not answered may have been restored on new servers, which count on from
// the index of the snapshot, so that an index may be that of another content.
func (e *Entries[T]) Doubt() {
	e.IsCurrent = false
	for path, known := range e.Known {
		known.doubted = true
		e.Known[path] = known
	}
}

// List lists the entries. It waits for a change if they are current. A listing with a lower index than the last one is that of a
// store that was restored, of which nothing is known then, or of a server that is behind, which is not believed. The first one may
// not be old: a server that has just started does not know of all.
func (e *Entries[T]) List(ctx context.Context, store ipam.Store) (isRestored bool, err error) {
	after, from := uint64(0), store
	if e.index > 0 {
		from = ipam.Stale(store)
	}
	if e.IsCurrent {
		after = e.index
	}
	listing, err := from.List(ctx, e.prefix, after)
	if err == nil && listing.Index < e.Newest() {
		listing, err = store.List(ctx, e.prefix, 0)
	}
	if err != nil {
		return false, err
	}
	if isRestored = listing.Index < e.Newest(); isRestored {
		e.Known, e.Written = map[string]Entry[T]{}, 0
	}
	e.index, e.IsCurrent, e.Listed = listing.Index, true, map[string]uint64{}
	for _, listed := range listing.Entries {
		e.Listed[listed.Path] = listed.Index
	}
	// What this host has written since is newer than the listing.
	maps.DeleteFunc(e.Known, func(path string, known Entry[T]) bool { return e.Listed[path] == 0 && known.Index <= listing.Index })
	return isRestored, nil
}

// Read reads what has changed of the last listing. After an error, what was read before it is known, and the next listing does not wait.
func (e *Entries[T]) Read(ctx context.Context, store ipam.Store, now time.Time) error {
	group, limited := errgroup.WithContext(ctx) // after one has failed the others would fail as well
	group.SetLimit(e.Reads)
	var mu sync.Mutex // guards what was read
	read := map[string]ipam.Entry{}
	for _, path := range e.changed() {
		if limited.Err() != nil {
			break
		}
		group.Go(func() error {
			got, err := e.get(limited, store, path)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				read[path] = got
			}
			return err
		})
	}
	err := cmp.Or(group.Wait(), context.Cause(ctx))
	for path, got := range read {
		if got.Index == 0 { // it is gone since it was listed
			delete(e.Known, path)
			continue
		}
		e.Known[path] = Entry[T]{Index: got.Index, Content: e.decode(got), Read: now}
	}
	e.IsCurrent = e.IsCurrent && err == nil
	return err
}

// changed are the wanted paths of which there is something else, and some of those in doubt. What is newer than the listing, this host has
// written, or has read since. Else a lower index is that of a store that was restored, and has been written to since by others.
func (e *Entries[T]) changed() (paths []string) {
	doubted := 0
	for _, path := range slices.Sorted(maps.Keys(e.Listed)) {
		known, ok := e.Known[path]
		isNew := !ok || known.Index != e.Listed[path] && known.Index <= max(e.index, e.Listed[path])
		if !isNew && known.doubted && doubted < mostDoubted {
			doubted++
			isNew = true
		}
		if isNew && e.wanted(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// get reads an entry. One that is gone has no index.
func (e *Entries[T]) get(ctx context.Context, store ipam.Store, path string) (ipam.Entry, error) {
	got, err := ipam.Stale(store).Get(ctx, path)
	if errors.Is(err, ipam.ErrNotFound) || err == nil && got.Index < e.Listed[path] {
		got, err = store.Get(ctx, path)
	}
	if errors.Is(err, ipam.ErrNotFound) {
		return ipam.Entry{}, nil
	}
	return got, err
}
