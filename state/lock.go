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
	"slices"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
)

// Locked is an allocation whose lock is held. Its methods are not to be called
// after Unlock. Methods that write different attachments may be called
// concurrently.
type Locked struct {
	store   *Store
	id      string
	file    *os.File
	release func()
	journal journal
}

// Lock waits for the lock of an allocation, within the process and between
// processes. When ctx ends first the error is its cause.
func (s *Store) Lock(ctx context.Context, id string) (*Locked, error) {
	if err := errors.Join(ValidateID(id), refuseLink(s.allocationDir(id))); err != nil {
		return nil, err
	}
	release, err := s.locks.Lock(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("wait for the lock of allocation %s: %w", id, err)
	}
	file, left, err := s.disk.lock(ctx, s.lockPath(id))
	if err != nil {
		release()
		return nil, fmt.Errorf("lock allocation %s: %w", id, err)
	}
	l := &Locked{store: s, id: id, file: file, release: release, journal: journal{disk: &s.disk, dir: s.allocationDir(id)}}
	if left {
		if err := l.journal.dropTornLine(); err != nil {
			l.Unlock()
			return nil, fmt.Errorf("allocation %s: drop what a killed process was writing: %w", id, err)
		}
	}
	return l, nil
}

// Unlock releases the lock. It may be called more than once.
func (l *Locked) Unlock() {
	if l.file == nil {
		return
	}
	l.journal.seal()
	l.journal.close()
	// A process was killed before it had written a record, or while it removed it.
	if _, err := os.Lstat(l.journal.path()); errors.Is(err, fs.ErrNotExist) {
		_ = l.Clear() // the next holder of the lock retries
	}
	// Removed while it is held: a waiting process sees that the file that it
	// locked is no longer there, and takes the new one.
	_ = l.store.disk.remove(l.file.Name(), os.Remove) // what stays is a stale file, no lock
	_ = l.file.Close()
	l.file = nil
	l.release()
}

// ErrLocked is a lock that another call or process has.
var ErrLocked = errdefs.New(errdefs.Unavailable, "is locked")

// TryLock locks an allocation that is not locked; otherwise the error is
// ErrLocked.
func (s *Store) TryLock(id string) (*Locked, error) {
	ctx, stop := context.WithCancelCause(context.Background())
	stop(fmt.Errorf("allocation %s %w", id, ErrLocked))
	return s.Lock(ctx, id)
}

// StaleLocks returns the IDs whose lock file was left by a process that was
// killed. They are harmless: the next Lock takes the file over.
func (s *Store) StaleLocks() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "locks"))
	if err != nil {
		return nil, err
	}
	var stale []string
	for _, entry := range entries {
		file, err := os.OpenFile(s.lockPath(entry.Name()), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) { // unlocked since it was listed
			continue
		}
		if err != nil {
			return nil, err
		}
		if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			stale = append(stale, entry.Name())
		}
		files.CloseLocked(file)
	}
	return stale, nil
}

// RemoveStale removes the files of StaleLocks, and marks of allocations whose
// record is lost.
func (s *Store) RemoveStale() error {
	stale, err := s.StaleLocks()
	marks, markErr := s.markedUnrecorded()
	for _, id := range slices.Concat(stale, marks) {
		if lock, err := s.TryLock(id); err == nil {
			lock.Unlock() // which removes the files
		}
	}
	return errors.Join(err, markErr)
}

// lock locks the file at path, which is made when it is missing, and tells
// whether it was there already: then a process was killed that had it locked.
func (d disk) lock(ctx context.Context, path string) (file *os.File, left bool, err error) {
	for {
		file, left, err := d.openLock(path)
		if left && errors.Is(err, fs.ErrNotExist) { // removed since it was found
			continue
		}
		if err != nil {
			return nil, false, err
		}
		if err := files.Lock(ctx, file, unix.LOCK_EX); err != nil {
			_ = file.Close() // never written
			return nil, false, err
		}
		if current, err := files.IsAt(file, path); current || err != nil {
			return file, left, err
		}
		_ = file.Close() // it was removed while we waited
	}
}

func (d disk) openLock(path string) (file *os.File, left bool, err error) {
	file, err = d.create(path, os.O_RDWR|os.O_EXCL)
	if !errors.Is(err, fs.ErrExist) {
		return file, false, err
	}
	file, err = os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	return file, true, err
}

// File is the lock itself, for a program to inherit; nil after Unlock. The allocation stays locked,
// after kill -9 of this process, until the program has ended. It must not start others that
// stay: those would keep the lock.
func (l *Locked) File() *os.File { return l.file }

// Hold opens the allocation's directory with a shared lock, for plugins to
// inherit: the lock lasts as long as any process has the file open, so that
// after kill -9 of this process WaitForPlugins sees that its plugins still run.
func (l *Locked) Hold() (*os.File, error) {
	dir, err := os.Open(l.journal.dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		_ = dir.Close() // read only
		return nil, fmt.Errorf("hold %s: %w", dir.Name(), err)
	}
	return dir, nil
}

// WaitForPlugins waits until no process has what Hold returned. Without a record
// there is nothing to wait for.
func (l *Locked) WaitForPlugins(ctx context.Context) error {
	dir, err := files.IfExists(os.Open(l.journal.dir))
	if dir == nil {
		return err
	}
	defer files.CloseLocked(dir)
	return files.Lock(ctx, dir, unix.LOCK_EX)
}
