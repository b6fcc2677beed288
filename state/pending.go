// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// A mark in the directory "pending" shows an unfinished teardown of the allocation, which
// is found without reading all records.

const pendingMarks = "pending"

// Pending returns the IDs of the allocations with an attachment in phase
// Pending, in order.
func (s *Store) Pending() ([]string, error) { return marked(filepath.Join(s.dir, pendingMarks)) }

// LockRetries is held while pending teardowns are retried. When another
// process has it the error is ErrLocked.
func (s *Store) LockRetries() (unlock func(), err error) {
	dir, err := os.Open(filepath.Join(s.dir, pendingMarks))
	if err != nil {
		return nil, err
	}
	switch err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		_ = dir.Close() // read only
		return nil, fmt.Errorf("%s %w", dir.Name(), ErrLocked)
	case err != nil:
		_ = dir.Close() // read only
		return nil, err
	}
	return func() { files.CloseLocked(dir) }, nil
}

// AddPending puts the allocation on the list of Store.Pending.
func (l *Locked) AddPending() error { return l.addMark(pendingMarks) }

// ClearPending takes the allocation off the list of Store.Pending. One that is
// not on it is fine.
func (l *Locked) ClearPending() error { return l.removeMark(pendingMarks) }
