// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Lock locks a file, how being unix.LOCK_EX or unix.LOCK_SH. When ctx ends first the
// error is its cause; a free lock is taken even if ctx has ended. It polls, because a
// waiting flock(2) cannot be cancelled.
func Lock(ctx context.Context, file *os.File, how int) error {
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

// LockFile locks the file at path, which it makes, with its directory, for this user alone. What is returned releases the
// lock; how and the end of ctx are those of Lock.
func LockFile(ctx context.Context, path string, how int) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := Open(path, os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o600)
	return lockOpen(ctx, file, err, how)
}

// LockDir is LockFile for a directory that is there.
func LockDir(ctx context.Context, path string, how int) (unlock func(), err error) {
	dir, err := os.Open(path)
	return lockOpen(ctx, dir, err, how)
}

func lockOpen(ctx context.Context, file *os.File, err error, how int) (unlock func(), _ error) {
	if err != nil {
		return nil, err
	}
	if err := Lock(ctx, file, how); err != nil {
		_ = file.Close() // never written
		return nil, fmt.Errorf("lock %s, which another process has: %w", file.Name(), err)
	}
	return func() { CloseLocked(file) }, nil
}

// IsAt tells whether an open file is still the one at path: who waits for the lock of a file that others remove asks
// this when he has it.
func IsAt(file *os.File, path string) (bool, error) { return isFound(file, os.Lstat, path) }

func isFound(file *os.File, find func(string) (os.FileInfo, error), name string) (bool, error) {
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	present, err := IfExists(find(name))
	return present != nil && os.SameFile(opened, present), err
}

// CloseLocked releases an exclusive lock and closes the file, to which nothing was written.
// Closing alone is not enough: a child that another goroutine has just forked has the
// file open, too, until it executes its program.
func CloseLocked(file *os.File) {
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN) // closing it does the rest
	_ = file.Close()                             // never written
}
