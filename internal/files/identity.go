// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"fmt"
	"syscall"
	"time"
)

// leastAge is more than clocks of filesystems differ from each other, and from one tick to the next.
const leastAge = 2 * time.Second

// Identity tells the content of a file, or of one that a link leads to, from others that it has had, and from other paths. It is empty for one that was changed just
// now, whose next change could not be told from that, and where there is none.
func Identity(path string) string {
	var is syscall.Stat_t
	if syscall.Stat(path, &is) != nil || isYoung(&is) {
		return ""
	}
	return fmt.Sprint(path, is.Dev, is.Ino, is.Size, is.Mtim, is.Ctim)
}

// Stamp is what Identity has of one path, without following a link there. It may be compared.
type Stamp struct {
	dev, ino       uint64
	size           int64
	changed, inode syscall.Timespec
}

// StampOf returns that of a path; ok is false where Identity would be empty.
func StampOf(path string) (_ Stamp, ok bool) {
	var is syscall.Stat_t // without what package os makes of it: a host has thousands of records
	if syscall.Lstat(path, &is) != nil || isYoung(&is) {
		return Stamp{}, false
	}
	return Stamp{is.Dev, is.Ino, is.Size, is.Mtim, is.Ctim}, true
}

func isYoung(is *syscall.Stat_t) bool { return time.Since(time.Unix(is.Ctim.Unix())) < leastAge }
