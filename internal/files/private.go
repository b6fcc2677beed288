// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CheckPrivate refuses what others than root and this process's user can change. The info is that of
// the path.
func CheckPrivate(path string, info fs.FileInfo) error {
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	case owner != 0 && owner != uint32(os.Geteuid()):
		return fmt.Errorf("%s belongs to user %d: want root", path, owner)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s has mode %#o: want one in which no other user can write, such as 0700", path, info.Mode().Perm())
	}
	return nil
}

// CheckPrivateTree checks a directory, which an operator may have elsewhere by a link, and the
// directories on the way below it. What is missing is no error.
func CheckPrivateTree(root string, below ...string) error {
	path, stat := root, os.Stat
	for i := 0; ; i++ {
		info, err := stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = CheckPrivate(path, info)
		}
		if err != nil {
			return fmt.Errorf("state directory: %w", err)
		}
		if i == len(below) {
			return nil
		}
		path, stat = filepath.Join(path, below[i]), os.Lstat
	}
}
