// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// disk keeps the files of a directory, and its lock.
type disk interface {
	// read returns nil for a file that does not exist.
	read(name string) ([]byte, error)
	// pathOf is for messages.
	pathOf(name string) string
	write(name string, data []byte) error
	lock(ctx context.Context) (unlock func(), err error)
}

type directory struct {
	path, lockName string
	// volatile: the directory is gone after a boot.
	volatile bool
}

func (d *directory) pathOf(name string) string { return filepath.Join(d.path, name) }

func (d *directory) read(name string) ([]byte, error) {
	data, err := files.ReadNoFollow(d.pathOf(name))
	if os.IsNotExist(err) {
		return nil, nil
	}
	return data, err
}

func (d *directory) write(name string, data []byte) error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	return files.Replace(d.pathOf(name), data, files.Options{Durable: !d.volatile})
}

func (d *directory) lock(ctx context.Context) (func(), error) {
	return files.LockFile(ctx, d.pathOf(d.lockName), unix.LOCK_EX)
}
