// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"crypto/rand"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Clear has nothing be at a name of a directory that others may write to. There may be nothing.
//
// A directory there that has something is not emptied but gets another name, which takes one step: one that others make may be deeper
// than this process may have open files, or be filled faster than it is emptied.
func Clear(dir *os.Root, name string) error {
	err := dir.Remove(name)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		err = dir.Rename(name, name+"."+rand.Text())
	}
	return UnlessMissing(err)
}
