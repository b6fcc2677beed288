// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// leaseMarks is also the directory whose lock the keeper of leases has.
const leaseMarks = "leases"

// KeepLeases is held while leases of DHCP are extended. The process that has it is the only one, and its end gives it to another one.
func (s *Store) KeepLeases(ctx context.Context) (unlock func(), err error) {
	return files.LockDir(ctx, filepath.Join(s.dir, leaseMarks), unix.LOCK_EX)
}

// LeasesAreKept tells whether a process has the lock of KeepLeases in a state directory. What cannot be examined is not kept.
func LeasesAreKept(dir string) bool {
	marks, err := os.Open(filepath.Join(dir, leaseMarks))
	if err != nil {
		return false
	}
	defer files.CloseLocked(marks)
	return unix.Flock(int(marks.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// ListLeased is List for the allocations that may have leases of DHCP.
func (s *Store) ListLeased(ctx context.Context) iter.Seq2[Record, error] {
	return s.list(ctx, func() ([]string, error) { return marked(filepath.Join(s.dir, leaseMarks)) })
}

// markLeases marks the allocation if attachments have leases.
func (l *Locked) markLeases(attachments []Attachment) error {
	if !slices.ContainsFunc(attachments, func(a Attachment) bool { return a.DHCP != nil }) {
		return nil
	}
	return l.addMark(leaseMarks)
}
