// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/flock"
)

// SweptBoot returns the boot for which the records of earlier ones were torn
// down; it is empty when there was none yet.
func (s *Store) SweptBoot() (string, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, "boot"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(data)), err
}

// SetSweptBoot records it.
func (s *Store) SetSweptBoot(boot string) error {
	temporary := filepath.Join(s.dir, ".boot")
	if err := writeFile(temporary, []byte(boot+"\n")); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(s.dir, "boot"))
}

// writeFile writes a file that is on disk before it gets its name.
func writeFile(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// LockAttaching is held while plugins attach, together with others, and keeps
// LockCollecting out.
func (s *Store) LockAttaching(ctx context.Context) (unlock func(), err error) {
	return s.lockHost(ctx, unix.LOCK_SH)
}

// LockCollecting is held while what no attachment needs is looked for or
// removed: one that is being made could need it. Attachments that are on record
// when the lock is had are all that there are until it is released. Waiting for
// it keeps new ones from beginning, so it is had when those under way are done.
func (s *Store) LockCollecting(ctx context.Context) (unlock func(), err error) {
	return s.lockHost(ctx, unix.LOCK_EX)
}

// lockHost goes through a turnstile, which whoever waits for the lock holds:
// else those who share it could keep others out for ever. The locks are on
// directories, which stay.
func (s *Store) lockHost(ctx context.Context, how int) (release func(), err error) {
	turnstile, err := lockDir(ctx, s.allocations(), how)
	if err != nil {
		return nil, err
	}
	defer flock.Close(turnstile)
	lock, err := lockDir(ctx, filepath.Join(s.dir, "locks"), how)
	if err != nil {
		return nil, err
	}
	return func() { flock.Close(lock) }, nil
}

func lockDir(ctx context.Context, path string, how int) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := flock.Lock(ctx, dir, how); err != nil {
		_ = dir.Close() // read only
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return dir, nil
}
