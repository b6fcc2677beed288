// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sysctl

import (
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

var mounts table

// table is a table of mounts, which is read when it has changed: a host has a mount for each
// allocation. The zero value has not been read. It is for kernels without listmount(2).
type table struct {
	mu    sync.Mutex
	file  *os.File
	plain bool
}

// isPlain tells whether the parameters of the network are now those of procfs. If that cannot
// be found out, they are not.
func (t *table) isPlain() bool {
	var stat unix.Statfs_t
	if err := unix.Statfs(root, &stat); err != nil || stat.Flags&unix.ST_RDONLY != 0 {
		return false
	}
	if plain, ok := arePlain(); ok {
		return plain
	}
	return t.isPlainByTable()
}

func (t *table) isPlainByTable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		const path = "/proc/thread-self/mountinfo"
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) // the runtime polls what os.Open opens, and would take the event
		if err != nil {
			return false
		}
		t.file = os.NewFile(uintptr(fd), path)
	} else if !t.changed() {
		return t.plain
	}
	text := []byte(nil)
	_, err := t.file.Seek(0, io.SeekStart)
	if err == nil {
		text, err = io.ReadAll(t.file)
	}
	t.plain = err == nil && isPlain(string(text))
	return t.plain
}

// changed tells whether there was a change since the table was opened, or since the last call
// (see "Notification of mount events" in proc_pid_mounts(5)).
func (t *table) changed() bool {
	fds := []unix.PollFd{{Fd: int32(t.file.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	return n != 0 || err != nil
}

// isPlain tells whether the parameters of the network are those of procfs, by the table of
// mounts (see proc_pid_mountinfo(5)). A mount on them is a protection: systemd's ReadOnlyPaths=, or
// masked paths of a container.
func isPlain(mountinfo string) bool {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return false
		}
		if isProtection(fields[4]) {
			return false
		}
	}
	return true
}

func isProtection(point string) bool {
	return point == root || point == root+"/net" || strings.HasPrefix(point, root+"/net/")
}
