// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"iter"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// portMarks is also the directory whose lock LockPorts takes.
const portMarks = "ports"

// LockPorts is held from looking for a host port in the records of others until
// the own record has it: of two calls that want one port the second sees the
// first's record. Calls that choose no port do not exclude each other.
func (s *Store) LockPorts(ctx context.Context, choosing bool) (unlock func(), err error) {
	how := unix.LOCK_SH
	if choosing {
		how = unix.LOCK_EX
	}
	return files.LockDir(ctx, filepath.Join(s.dir, portMarks), how)
}

// ListChosen is List for the allocations that may have ports in ChosenPorts.
func (s *Store) ListChosen(ctx context.Context) iter.Seq2[Record, error] {
	return s.list(ctx, func() ([]string, error) { return marked(filepath.Join(s.dir, portMarks)) })
}
