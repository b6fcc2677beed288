// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// needed returns the files and directories of the machine that tests need, wherever they are: the module, the programs
// that a variable names, the directory of this program, also by a link to it, and what the go command reads and writes.
var needed = sync.OnceValues(func() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	paths := []string{Root(), PluginDir(), os.Getenv(nomadVariable), filepath.Dir(self), filepath.Dir(os.Args[0])}
	if program, err := exec.LookPath("go"); err == nil { // a demo needs none
		out, err := exec.Command(program, "env", "GOROOT", "GOCACHE", "GOMODCACHE", "GOENV").Output()
		if err != nil {
			return nil, fmt.Errorf("%s env: %w", program, err)
		}
		paths = append(paths, strings.Split(strings.TrimSpace(string(out)), "\n")...)
		if program, err = filepath.EvalSymlinks(program); err != nil {
			return nil, err
		}
		paths = append(paths, filepath.Dir(filepath.Dir(program))) // it may start another version, which is at GOROOT
	}
	return resolve(paths), nil
})

// resolve returns the paths that exist, as they are and without symbolic links, which may be below a hidden directory.
func resolve(paths []string) (resolved []string) {
	for _, path := range paths {
		target, err := filepath.EvalSymlinks(path)
		if err == nil && filepath.IsAbs(path) {
			resolved = append(resolved, filepath.Clean(path), target)
		}
	}
	slices.Sort(resolved)
	return slices.Compact(resolved)
}

// Cover makes a directory empty for the processes of this mount namespace, except for what tests need that is below it.
// One that they need itself is refused: they would change what the machine has in it.
func Cover(dir string) error {
	return over(dir, func() error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "") })
}

// Bind is Cover with a file or a directory that is at path instead.
func Bind(source, path string) error {
	return over(path, func() error { return unix.Mount(source, path, "", unix.MS_BIND, "") })
}

// over mounts something over a directory, and what tests need below it again where it was.
func over(dir string, mount func() error) error {
	paths, err := needed()
	if err != nil {
		return err
	}
	return overExcept(dir, paths, mount)
}

func overExcept(dir string, paths []string, mount func() error) error {
	if slices.Contains(paths, dir) {
		return fmt.Errorf("%s has to be empty for the tests, and has what they need: put the module, Go, its caches, the plugins and the program of the tests elsewhere, or into directories below it", dir)
	}
	paths = slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !isBelow(path, dir) })
	handles := make([]int, len(paths))
	for i, path := range paths {
		var err error
		if handles[i], err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		defer unix.Close(handles[i]) //nolint:errcheck // nothing was written
	}
	if err := mount(); err != nil {
		return fmt.Errorf("cover %s: %w", dir, err)
	}
	for i, path := range paths {
		if err := keep(path, handles[i]); err != nil {
			return fmt.Errorf("keep %s below %s: %w", path, dir, err)
		}
	}
	return nil
}

func isBelow(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

// kept are the paths below covered directories at which something of the machine is.
var kept []string

func keep(path string, handle int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(handle, &stat); err != nil {
		return err
	}
	place := os.MkdirAll(filepath.Dir(path), 0o755)
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		place = errors.Join(place, os.MkdirAll(path, 0o755))
	} else if _, err := os.Stat(path); err != nil { // another one may have it
		place = errors.Join(place, os.WriteFile(path, nil, 0o644))
	}
	if place != nil {
		return place
	}
	kept = append(kept, path)
	return unix.Mount(fmt.Sprintf("/proc/self/fd/%d", handle), path, "", unix.MS_BIND|unix.MS_REC, "")
}

// IsKept is whether a path is of the machine, though it is below a covered directory: no test lists or removes it.
func IsKept(path string) bool { return slices.Contains(kept, path) }

// HasKept is whether something of the machine is below a covered directory.
func HasKept(dir string) bool {
	return slices.ContainsFunc(kept, func(path string) bool { return isBelow(path, dir) })
}
