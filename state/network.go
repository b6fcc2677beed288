// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
)

// networksDir is the directory of Networks.
const networksDir = "networks"

// Networks are what is on record of the networks of the host, whatever CNI configuration directories they are in.
type Networks struct {
	dir  string
	disk disk
}

// Networks returns what is on record.
func (s *Store) Networks() Networks { return Networks{filepath.Join(s.dir, networksDir), s.disk} }

// Lock is held from reading the networks of the host until one that follows from that is written: two that are created at once would choose
// the same subnet.
func (n Networks) Lock(ctx context.Context) (unlock func(), err error) {
	return files.LockDir(ctx, n.dir, unix.LOCK_EX)
}

// Dirs returns the directories in which networks were created. Some may be gone.
func (n Networks) Dirs() ([]string, error) {
	data, err := files.IfExists(files.ReadNoFollow(n.file()))
	return slices.DeleteFunc(strings.Split(string(data), "\n"), func(dir string) bool { return dir == "" }), err
}

// AddDir records a directory before a network is created in it. The caller holds Lock.
func (n Networks) AddDir(dir string) error {
	dirs, err := n.Dirs()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil || slices.Contains(dirs, dir) {
		return err
	}
	if strings.Contains(dir, "\n") {
		return errdefs.As(errdefs.Refused, fmt.Errorf("directory %q: want a path without line feeds: those in which networks are created are on record, one a line", dir))
	}
	path, data := n.file(), []byte(strings.Join(append(dirs, dir), "\n")+"\n")
	return n.disk("write", path, func() error { return files.Replace(path, data, files.Options{Durable: true}) })
}

func (n Networks) file() string { return filepath.Join(n.dir, "directories") }
