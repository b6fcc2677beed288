// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package filestore keeps the entries of pools in a directory of this host: the ipam.Store of
// a host without a cluster. Each entry is a file; processes exclude each other with a lock. A
// process that is killed at any instant leaves an entry as it was, or changed.
package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/files"
)

// Store is an ipam.Store in a directory. It may be used concurrently, by several processes.
type Store struct{ dir string }

var _ ipam.Store = (*Store)(nil)

// New returns the store in the directory, which is made by the first request.
func New(dir string) *Store { return &Store{dir} }

// Private tells that no other machine uses the store.
func (*Store) Private() bool { return true }

// Files beside those of entries, whose paths have no dot.
const (
	lockName    = ".lock"
	counterName = ".counter"
)

// Get implements ipam.Store.
func (s *Store) Get(ctx context.Context, path string) (ipam.Entry, error) {
	var entry ipam.Entry
	err := s.locked(ctx, unix.LOCK_SH, func() (err error) {
		entry, err = s.read(path)
		return err
	})
	return entry, err
}

// List implements ipam.Store. An entry whose file was damaged has the index 0: it is there, and
// cannot be read.
func (s *Store) List(ctx context.Context, prefix string, after uint64) (ipam.Listing, error) {
	if after > 0 {
		if err := s.awaitChange(ctx, after); err != nil {
			return ipam.Listing{}, err
		}
	}
	var listing ipam.Listing
	err := s.locked(ctx, unix.LOCK_SH, func() (err error) {
		if listing.Index, err = s.counter(); err != nil {
			return err
		}
		listing.Entries, err = s.entries(prefix)
		return err
	})
	return listing, err
}

// Create implements ipam.Store.
func (s *Store) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	return s.write(ctx, path, content, 0)
}

// Update implements ipam.Store.
func (s *Store) Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	if index == 0 {
		return 0, fmt.Errorf("%s: %w", path, ipam.ErrConflict) // 0 would create it
	}
	return s.write(ctx, path, content, index)
}

// write replaces the entry with the index; 0: a missing one.
func (s *Store) write(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	if len(content) > ipam.MaxContent { // what could not be read again would stop all others
		return 0, fmt.Errorf("%w: %s has %d bytes, want at most %d", ipam.ErrInvalid, path, len(content), ipam.MaxContent)
	}
	var next uint64
	err := s.locked(ctx, unix.LOCK_EX, func() error {
		before, err := s.read(path)
		if err != nil && !errors.Is(err, ipam.ErrNotFound) {
			return err
		}
		if before.Index != index {
			return fmt.Errorf("%s: %w", path, ipam.ErrConflict)
		}
		if next, err = s.count(); err != nil {
			return err
		}
		return files.Replace(s.file(path), encode(content, next), files.Options{Durable: true})
	})
	return next, err
}

// Delete implements ipam.Store.
func (s *Store) Delete(ctx context.Context, path string, index uint64) error {
	return s.locked(ctx, unix.LOCK_EX, func() error {
		before, err := s.read(path)
		switch {
		case errors.Is(err, ipam.ErrNotFound):
			return nil
		case err != nil:
			return err
		case before.Index != index:
			return fmt.Errorf("%s: %w", path, ipam.ErrConflict)
		}
		if _, err = s.count(); err != nil {
			return err
		}
		return remove(s.file(path))
	})
}

// remove removes a file for good: after a power cut it is not there again.
func remove(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// locked does something under the lock. A lock is taken for the counter and the entries
// together: an index belongs to one change.
func (s *Store) locked(ctx context.Context, how int, do func() error) error {
	if ctx.Err() != nil {
		return s.unavailable(context.Cause(ctx))
	}
	unlock, err := files.LockFile(ctx, filepath.Join(s.dir, lockName), how)
	if err != nil {
		return s.unavailable(err)
	}
	defer unlock()
	if err = do(); err == nil || errors.Is(err, ipam.ErrConflict) || errors.Is(err, ipam.ErrNotFound) || errors.Is(err, ipam.ErrRefused) {
		return err
	}
	return s.unavailable(err)
}

func (s *Store) unavailable(err error) error {
	return fmt.Errorf("%w: directory %s: %w", ipam.ErrUnavailable, s.dir, err)
}

func (s *Store) read(path string) (ipam.Entry, error) {
	if !valid(path) {
		return ipam.Entry{}, fmt.Errorf("%w: path %q: want 1 to 128 of a-z, A-Z, 0-9, -, _, ~ and /", ipam.ErrRefused, path)
	}
	content, index, err := readFile(s.file(path))
	if errors.Is(err, fs.ErrNotExist) {
		return ipam.Entry{}, fmt.Errorf("%s: %w", path, ipam.ErrNotFound)
	}
	return ipam.Entry{Path: path, Content: content, Index: index}, err
}

// entries are those with the prefix, sorted by path.
func (s *Store) entries(prefix string) ([]ipam.Entry, error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var found []ipam.Entry
	for _, file := range files {
		path := strings.ReplaceAll(file.Name(), ",", "/")
		if !strings.HasPrefix(path, prefix) || !valid(path) {
			continue
		}
		_, index, _ := readFile(s.file(path)) // of a damaged file it is 0
		found = append(found, ipam.Entry{Path: path, Index: index})
	}
	slices.SortFunc(found, func(a, b ipam.Entry) int { return strings.Compare(a.Path, b.Path) })
	return found, nil
}
