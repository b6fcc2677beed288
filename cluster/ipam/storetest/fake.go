// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Fake is an ipam.Store in memory. The zero value is an empty one. A test that lets requests
// fail wraps it.
type Fake struct {
	mu      sync.Mutex // guards all below
	entries map[string]ipam.Entry
	index   uint64
	// changed is closed by the next change.
	changed chan struct{}
}

// Get implements ipam.Store.
func (f *Fake) Get(ctx context.Context, path string) (ipam.Entry, error) {
	if err := ended(ctx); err != nil {
		return ipam.Entry{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	entry, ok := f.entries[path]
	if !ok {
		return ipam.Entry{}, fmt.Errorf("%s: %w", path, ipam.ErrNotFound)
	}
	entry.Content = slices.Clone(entry.Content)
	return entry, nil
}

// List implements ipam.Store.
func (f *Fake) List(ctx context.Context, prefix string, after uint64) (ipam.Listing, error) {
	for {
		listing, changed := f.list(prefix)
		if after == 0 || listing.Index != after {
			return listing, ended(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ipam.Listing{}, ended(ctx)
		}
	}
}

func (f *Fake) list(prefix string) (ipam.Listing, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	listing := ipam.Listing{Index: f.index + 1}
	for _, path := range slices.Sorted(maps.Keys(f.entries)) {
		if strings.HasPrefix(path, prefix) {
			listing.Entries = append(listing.Entries, ipam.Entry{Path: path, Index: f.entries[path].Index})
		}
	}
	return listing, f.changed
}

// Create implements ipam.Store.
func (f *Fake) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	return f.write(ctx, path, content, 0)
}

// Update implements ipam.Store.
func (f *Fake) Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	if index == 0 {
		return 0, fmt.Errorf("%s: %w", path, ipam.ErrConflict)
	}
	return f.write(ctx, path, content, index)
}

// write replaces the entry with the index; 0: a missing one.
func (f *Fake) write(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	if err := ended(ctx); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries[path].Index != index {
		return 0, fmt.Errorf("%s: %w", path, ipam.ErrConflict)
	}
	if f.entries == nil {
		f.entries = map[string]ipam.Entry{}
	}
	f.changeLocked()
	f.entries[path] = ipam.Entry{Path: path, Content: slices.Clone(content), Index: f.index}
	return f.index, nil
}

// Delete implements ipam.Store.
func (f *Fake) Delete(ctx context.Context, path string, index uint64) error {
	if err := ended(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	entry, ok := f.entries[path]
	switch {
	case !ok:
		return nil
	case entry.Index != index:
		return fmt.Errorf("%s: %w", path, ipam.ErrConflict)
	}
	f.changeLocked()
	delete(f.entries, path)
	return nil
}

// changeLocked counts a change and ends the waiting of lists.
func (f *Fake) changeLocked() {
	f.index++
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// ended is the error of a request whose context has ended.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return errors.Join(ipam.ErrUnavailable, context.Cause(ctx))
}
