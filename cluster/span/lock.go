// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
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

// RequireNoOther returns ErrLocked if another process of this user has a lock of routes, in whatever
// directory, and shares the network namespace: an agent with another state directory. Locks of other users
// are none. An agent whose processes are not seen from here, as from within a container, is not found.
func RequireNoOther() error {
	own, err := procfs.Self()
	if err != nil {
		return err
	}
	network, err := networkOf(own)
	if err != nil {
		return err
	}
	all, err := procfs.AllProcs()
	if err != nil {
		return err
	}
	var others []string
	for _, p := range all {
		if p.PID == own.PID || !isOwnUsers(p) {
			continue
		}
		if dir := lockedBy(p); dir != "" {
			if theirs, err := networkOf(p); err == nil && theirs == network {
				others = append(others, fmt.Sprintf("process %d, whose records are in %s", p.PID, dir))
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrLocked, strings.Join(others, "; "))
}

// isOwnUsers is false for a process that has ended, too.
func isOwnUsers(p procfs.Proc) bool {
	status, err := p.NewStatus()
	return err == nil && !slices.ContainsFunc(status.UIDs[:], func(id uint64) bool { return id != uint64(os.Geteuid()) })
}

// lockedBy returns the directory of routes whose lock a process has open. Empty: it has none.
func lockedBy(p procfs.Proc) string {
	open, err := p.FileDescriptorTargets()
	if err != nil {
		return ""
	}
	for _, path := range open {
		if strings.HasSuffix(path, filepath.Join("/", Dir(""), lockName)) {
			return filepath.Dir(path)
		}
	}
	return ""
}

func networkOf(p procfs.Proc) (uint32, error) {
	all, err := p.Namespaces()
	return all["net"].Inode, err
}
