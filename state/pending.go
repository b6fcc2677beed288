// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A mark in the directory "pending" says that a teardown of the allocation did
// not finish, so that nobody has to read all records to find it.

func (s *Store) pendingPath(id string) string { return filepath.Join(s.dir, "pending", id) }

// Pending returns the IDs of the allocations with an attachment in phase
// Pending, in order.
func (s *Store) Pending() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "pending"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []string
	for _, entry := range entries {
		if ValidateID(entry.Name()) == nil {
			ids = append(ids, entry.Name())
		}
	}
	return ids, err
}

func (l *Locked) setPending() error {
	path := l.store.pendingPath(l.id)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return writeFile(path, nil, false)
}

// ClearPending takes the allocation off the list of Store.Pending. One that is
// not on it is fine.
func (l *Locked) ClearPending() error {
	err := os.Remove(l.store.pendingPath(l.id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
