// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Locked is an allocation whose lock is held. Its methods are not to be called
// after Unlock. Methods that write different attachments may be called
// concurrently.
type Locked struct {
	store   *Store
	id      string
	file    *os.File
	release func()
}

// Lock waits for the lock of an allocation, within the process and between
// processes. When ctx ends first the error is its cause.
func (s *Store) Lock(ctx context.Context, id string) (*Locked, error) {
	if err := ValidateID(id); err != nil {
		return nil, err
	}
	release, err := s.locks.Lock(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("wait for the lock of allocation %s: %w", id, err)
	}
	file, err := lockFile(ctx, s.lockPath(id))
	if err != nil {
		release()
		return nil, fmt.Errorf("lock allocation %s: %w", id, err)
	}
	return &Locked{store: s, id: id, file: file, release: release}, nil
}

// Unlock releases the lock. It may be called more than once.
func (l *Locked) Unlock() {
	if l.file == nil {
		return
	}
	// Removed while it is held: whoever waits sees that the file that it
	// locked is no longer there, and takes the new one.
	_ = os.Remove(l.file.Name()) // what stays is a stale file, no lock
	_ = l.file.Close()
	l.file = nil
	l.release()
}

// lockFile locks the file at path, which is made when it is missing.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(ctx, file, unix.LOCK_EX); err != nil {
			_ = file.Close() // never written
			return nil, err
		}
		if current, err := stillAt(file, path); current || err != nil {
			return file, err
		}
		_ = file.Close() // it was removed while we waited
	}
}

func stillAt(file *os.File, path string) (bool, error) {
	locked, err := file.Stat()
	if err != nil {
		return false, err
	}
	present, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(locked, present), err
}

// flock polls, because a waiting flock(2) cannot be cancelled. Waiting is
// rare: within a process keylock does it.
func flock(ctx context.Context, file *os.File, how int) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 25*time.Millisecond) {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Hold opens the allocation's directory with a shared lock, for plugins to
// inherit: the lock lasts as long as any process has the file open, so that
// after kill -9 of this process Quiesce sees that its plugins still run.
func (l *Locked) Hold() (*os.File, error) {
	dir, err := os.Open(l.dir())
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		_ = dir.Close() // read only
		return nil, fmt.Errorf("hold %s: %w", dir.Name(), err)
	}
	return dir, nil
}

// Quiesce waits until no process has what Hold returned. Without a record
// there is nothing to wait for.
func (l *Locked) Quiesce(ctx context.Context) error {
	dir, err := os.Open(l.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // read only
	return flock(ctx, dir, unix.LOCK_EX)
}
