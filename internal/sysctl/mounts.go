// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sysctl

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// plain is isPlain of this process. It is asked once: service managers and container runtimes
// make their mounts before the process starts, and a host has a mount for each allocation.
var plain = sync.OnceValue(isPlainHere)

func isPlainHere() bool {
	var stat unix.Statfs_t
	if err := unix.Statfs(root, &stat); err != nil || stat.Flags&unix.ST_RDONLY != 0 {
		return false
	}
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	return err == nil && isPlain(string(mounts))
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
		if point := fields[4]; point == root || point == root+"/net" || strings.HasPrefix(point, root+"/net/") {
			return false
		}
	}
	return true
}
