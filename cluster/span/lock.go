// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
)

// Dir has the records of the routes, below the state directory.
func Dir(stateDir string) string { return filepath.Join(stateDir, "routes") }

// ErrLocked is returned if another process keeps the routes of the host.
var ErrLocked = errdefs.New(errdefs.Conflict, "another process keeps the routes of this host: an agent, or allocnet cluster leave")

const lockName = "lock"

// lockAttempts are made against others that remove the directory at the same time.
const lockAttempts = 100

// Lock makes this process the only one that changes the routes with records in a directory. It
// does not wait. To ask the agent instead would start it, if systemd has its socket.
func Lock(dir string) (unlock func(), err error) {
	for range lockAttempts {
		file, err := tryLock(dir)
		if err == nil {
			return func() { files.CloseLocked(file) }, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, ErrLocked
}

// tryLock fails with fs.ErrNotExist if the file or its directory was removed meanwhile: another
// process locks a new one then.
func tryLock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); errors.Is(err, fs.ErrExist) { // it was there, and is gone
		return nil, fs.ErrNotExist
	} else if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, lockName)
	file, err := files.Open(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, err
	}
	now, stop := context.WithCancelCause(context.Background())
	stop(ErrLocked)
	is := false
	if err = files.Lock(now, file, unix.LOCK_EX); err == nil {
		is, err = files.IsAt(file, path)
	}
	if err == nil && !is {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = file.Close() // never written
		return nil, err
	}
	return file, nil
}

// RemoveDir removes a directory without records, and with it the lock, which the caller has: another
// process may make and lock a new one at once.
func RemoveDir(dir string) error {
	path := filepath.Join(dir, lockName)
	if err := os.Remove(path); err != nil {
		return err
	}
	err := os.Remove(dir)
	if _, locked := os.Stat(path); err != nil && locked == nil {
		return nil
	}
	return err
}
