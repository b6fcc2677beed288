// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Exists tells whether there is a network namespace at path. One that cannot be opened
// exists.
func Exists(path string) bool {
	handle, err := refer(path)
	if err != nil {
		return !errors.Is(err, ErrMissing)
	}
	_ = handle.Close() // read only
	return true
}

// Others yields a path to each network namespace but the caller's: those that
// are pinned where `ip netns` and Docker pin them, and those of processes.
func Others() ([]string, error) {
	seen := map[[2]uint64]bool{}
	own, err := identity("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	seen[own] = true
	var paths []string
	for _, pattern := range []string{DefaultDir + "/*", "/run/docker/netns/*", "/proc/[0-9]*/ns/net"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range matches {
			id, err := identity(path)
			if unreachable(err) {
				continue
			}
			if err != nil {
				return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
			}
			if !seen[id] {
				seen[id] = true
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}

// Unused returns those of the paths that exist and at which no process's namespace is.
func Unused(paths []string) (unused []string, err error) {
	found := map[string][2]uint64{}
	for _, path := range paths {
		if id, err := identity(path); err == nil {
			found[path] = id
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	used, err := inUse()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if id, exists := found[path]; exists && !used[id] {
			unused = append(unused, path)
		}
	}
	return unused, nil
}

// inUse returns the namespaces of all threads.
func inUse() (map[[2]uint64]bool, error) {
	threads, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*/ns/net")
	if err != nil {
		return nil, err
	}
	used := map[[2]uint64]bool{}
	for _, path := range threads {
		id, err := identity(path)
		if unreachable(err) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
		used[id] = true
	}
	return used, nil
}

// unreachable is a process that has ended, or one that even root may not inspect,
// which then is not a program of this host that has attachments.
func unreachable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrPermission)
}

func identity(path string) ([2]uint64, error) {
	var stat unix.Stat_t
	err := unix.Stat(path, &stat)
	return [2]uint64{stat.Dev, stat.Ino}, os.NewSyscallError("stat", err)
}
