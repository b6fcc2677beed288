// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// sharedTimeout is how long another writer of the same file is waited for. It ends in an instant, but others who can read the file can have its
// lock, too.
const sharedTimeout = 10 * time.Second

// createShared makes a file that other writers may make at the same time. Who has the lock of the one at the name has the name: the others
// wait until it has got another, or its writer has been killed, and then make one.
func (r root) createShared(name string) (f file, release func(), err error) {
	ctx, stop := context.WithTimeoutCause(context.Background(), sharedTimeout, errors.New("another process has its temporary file"))
	defer stop()
	for {
		locked, err := r.lockNew(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		if locked == nil {
			continue
		}
		// To close the one that is written tells of errors, and leaves the lock.
		written, err := unix.FcntlInt(locked.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			CloseLocked(locked)
			return nil, nil, err
		}
		return os.NewFile(uintptr(written), name), func() { CloseLocked(locked) }, nil
	}
}

// lockNew creates a file and locks it; nil, if another writer has been faster. What is at the name without a writer is removed: that of a killed
// one may have the name of the file already.
func (r root) lockNew(ctx context.Context, name string) (*os.File, error) {
	created, err := r.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, r.removeUnused(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	if err := Lock(ctx, created, unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, created.Close())
	}
	if isAt, err := isFound(created, r.dir.Lstat, name); err != nil || !isAt {
		CloseLocked(created)
		return nil, err
	}
	return created, nil
}

// removeUnused removes a file when no writer has it. Anything else than a file has none.
func (r root) removeUnused(ctx context.Context, name string) error {
	info, err := IfExists(r.dir.Lstat(name))
	if info == nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return r.remove(name)
	}
	file, err := r.dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return UnlessMissing(err)
	}
	defer CloseLocked(file)
	if err := Lock(ctx, file, unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", filepath.Join(r.dir.Name(), name), err)
	}
	isAt, err := isFound(file, r.dir.Lstat, name)
	if err != nil || !isAt {
		return err
	}
	return r.remove(name)
}
