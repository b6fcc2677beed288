// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
)

// ErrAttaching is a lock that cannot be had now, because attachments are in
// flight.
var ErrAttaching = errdefs.New(errdefs.Unavailable, "attachments are in flight")

// collectTimeout is how long one LockHost keeps new attachments from
// beginning.
const collectTimeout = 500 * time.Millisecond

// RLockHost is held while plugins attach, together with others, and keeps
// LockHost out.
func (s *Store) RLockHost(ctx context.Context) (unlock func(), err error) {
	return s.lockHost(ctx, unix.LOCK_SH)
}

// LockHost is held while what no attachment needs is looked for or
// removed: one that is being made could need it. Attachments that are on record
// when the lock is had are all that there are until it is released. Waiting for
// it keeps new ones from beginning, so it waits for half a second at most for
// those in flight; then the error is ErrAttaching.
func (s *Store) LockHost(ctx context.Context) (unlock func(), err error) {
	cause := fmt.Errorf("%w: timed out after %s", ErrAttaching, collectTimeout)
	limited, stop := context.WithTimeoutCause(ctx, collectTimeout, cause)
	defer stop()
	return s.lockHost(limited, unix.LOCK_EX)
}

// AttachmentWaits tells whether RLockHost waits for the holder of LockHost. Callers of
// RLockHost share the turnstile while they wait.
func (s *Store) AttachmentWaits() bool {
	turnstile, err := os.Open(s.allocations())
	if err != nil {
		return false
	}
	defer files.CloseLocked(turnstile)
	fd := int(turnstile.Fd())
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil && unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) == nil
}

// lockHost goes through a turnstile, which a call that waits for the lock holds:
// otherwise shared locks could starve an exclusive one. The locks are on directories,
// which are never removed.
func (s *Store) lockHost(ctx context.Context, how int) (release func(), err error) {
	leave, err := files.LockDir(ctx, s.allocations(), how)
	if err != nil {
		return nil, err
	}
	defer leave()
	return files.LockDir(ctx, filepath.Join(s.dir, "locks"), how)
}
