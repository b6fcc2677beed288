// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package sysctl reads and writes parameters of the kernel, those of the network in the network
// namespace of the thread.
package sysctl

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const root = "/proc/sys"

// Tree has the parameters. It reads them through a mount of procfs of this process: in /proc/sys
// the kernel compares a name that is looked up with the entries of all network namespaces, so
// with 1,000 of them one look-up takes about 0.3 ms. Where it may not mount, where a part of
// /proc/sys is protected (see isPlain), and where the mount gives no access, that is used.
//
// The zero value is usable. A Tree is for one goroutine at a time.
type Tree struct {
	opened bool
	// mount is nil where /proc/sys is used.
	mount *os.File
}

// Get returns the value of a parameter, a path like net/ipv4/ip_forward, without the end of its
// line. Errors are *fs.PathError with a path in /proc/sys.
func (t *Tree) Get(key string) (value string, err error) {
	err = t.with(key, unix.O_RDONLY, func(fd int) (err error) {
		value, err = readAll(fd)
		return err
	})
	return value, err
}

// Set sets a parameter. Errors are as those of Get; one that does not exist is fs.ErrNotExist.
func (t *Tree) Set(key, value string) error {
	return t.with(key, unix.O_WRONLY|unix.O_TRUNC, func(fd int) error {
		_, err := unix.Write(fd, []byte(value))
		return err
	})
}

// Get returns the value of a parameter that few ask for, by /proc/sys.
func Get(key string) (string, error) {
	t := Tree{opened: true}
	return t.Get(key)
}

// with opens a parameter without a file of the runtime, which would take more calls than the rest.
func (t *Tree) with(key string, flags int, do func(fd int) error) error {
	op := "open"
	fd, err := t.open(key, flags|unix.O_CLOEXEC)
	if err == nil {
		op, err = "access", do(fd)
		_ = unix.Close(fd) // the kernel has taken what was written
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: root + "/" + key, Err: err}
	}
	return nil
}

func (t *Tree) open(key string, flags int) (int, error) {
	if !t.opened {
		t.opened = true
		t.mount = recent.get()
	}
	if t.mount != nil {
		fd, err := unix.Openat(int(t.mount.Fd()), "sys/"+key, flags, 0)
		runtime.KeepAlive(t.mount)             // nothing else may have it by now
		if !errors.Is(err, fs.ErrPermission) { // Landlock and AppArmor may allow paths alone
			return fd, err
		}
	}
	return unix.Open(root+"/"+key, flags, 0)
}

// readAll returns the text of a parameter, of which the kernel gives at most a page at once.
func readAll(fd int) (string, error) {
	var text []byte
	for part := make([]byte, 4096); ; {
		n, err := unix.Read(fd, part)
		if err != nil || n == 0 {
			return strings.TrimSuffix(string(text), "\n"), err
		}
		text = append(text, part[:n]...)
	}
}

// recent is the mount that new Trees get.
var recent mounted

type mounted struct {
	mu    sync.Mutex
	trees int
	file  *os.File
}

// mostTrees is how many share a mount: in one that is kept, the kernel has the entries of all network namespaces, too.
const mostTrees = 32

// get returns nil where /proc/sys is used. The runtime closes a mount that no Tree has any more.
func (m *mounted) get() *os.File {
	if !mounts.isPlain() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trees%mostTrees == 0 {
		m.file, _ = mountProc() // without it /proc/sys does
	}
	m.trees++
	return m.file
}

// mountProc returns the root of a mount of procfs that is nowhere in the file system.
func mountProc() (*os.File, error) {
	context, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(context) //nolint:errcheck // the mount is another descriptor
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, err
	}
	fd, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "proc"), nil
}
