// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// Intercept has every change of the state directory made by intercept, which gets
// the operation ("mkdir", "create", "allocate", "write", "sync", "rename", "link",
// "truncate", "remove"), its path, and change, which makes it. An intercept that does not call
// change, or returns an error after it, does what a kill at that instant, a full
// disk or a faulty one does: it is for tests. Concurrent changes call it
// concurrently. It is not to be called while the store is in use.
func (s *Store) Intercept(intercept func(op, path string, change func() error) error) {
	s.disk = intercept
}

// disk makes the changes of a state directory; see Intercept.
type disk func(op, path string, change func() error) error

// makeChange is the disk of a store that is open for writing.
func makeChange(_, _ string, change func() error) error { return change() }

func (d disk) mkdir(path string, mkdir func(string, fs.FileMode) error) error {
	return d("mkdir", path, func() error { return mkdir(path, 0o700) })
}

// create opens a file that is made when it is missing, never through a link.
func (d disk) create(path string, flags int) (file *os.File, err error) {
	err = d("create", path, func() error {
		file, err = os.OpenFile(path, flags|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		return err
	})
	if err != nil && file != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, err
}

func (d disk) writeAt(file *os.File, data []byte, offset int64) (n int, err error) {
	err = d("write", file.Name(), func() error {
		n, err = file.WriteAt(data, offset)
		return err
	})
	return n, err
}

// allocate reserves room in a file, whose size stays.
func (d disk) allocate(file *os.File, from, size int64) error {
	return d("allocate", file.Name(), func() error {
		return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, from, size)
	})
}

func (d disk) truncate(file *os.File, size int64) error {
	return d("truncate", file.Name(), func() error { return file.Truncate(size) })
}

func (d disk) truncatePath(path string, size int64) error {
	return d("truncate", path, func() error { return os.Truncate(path, size) })
}

func (d disk) rename(from, to string) error {
	return d("rename", to, func() error { return os.Rename(from, to) }) //nolint:forbidigo // the journal stays open
}

func (d disk) link(from, to string) error {
	return d("link", to, func() error { return os.Link(from, to) })
}

// remove takes os.Remove or os.RemoveAll.
func (d disk) remove(path string, remove func(string) error) error {
	return d("remove", path, func() error { return remove(path) })
}

// removeFile is files.Remove.
func (d disk) removeFile(path string) error {
	return d("remove", path, func() error { return files.Remove(path) })
}

// syncData has a file's data reach the disk.
func (d disk) syncData(file *os.File) error {
	return d("sync", file.Name(), func() error {
		return os.NewSyscallError("fdatasync", unix.Fdatasync(int(file.Fd())))
	})
}

// syncPath has the names in a directory reach the disk.
func (d disk) syncPath(path string) error {
	return d("sync", path, func() error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(file.Sync(), file.Close())
	})
}
