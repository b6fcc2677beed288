// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/flock"
	"github.com/allocnet/allocnet/internal/regularfile"
)

// Dir has the records of the routes, below the state directory.
func Dir(stateDir string) string { return filepath.Join(stateDir, "routes") }

// ErrLocked is returned if another process keeps the routes of the host.
var ErrLocked = errdefs.New(errdefs.Conflict, "another process keeps the routes of this host: an agent, or allocnet cluster leave")

// Lock makes this process the only one that changes the routes with records in a directory. It
// does not wait. To ask the agent instead would start it, if systemd has its socket.
func Lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := regularfile.Open(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, err
	}
	now, stop := context.WithCancelCause(context.Background())
	stop(ErrLocked)
	if err := flock.Lock(now, file, unix.LOCK_EX); err != nil {
		_ = file.Close() // never written
		return nil, err
	}
	return func() { flock.Close(file) }, nil
}

// RemoveDir removes an empty directory of records. The caller has the lock.
func RemoveDir(dir string) error {
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		return err
	}
	return os.Remove(dir)
}
