// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package sysctl reads and writes parameters of the kernel, those of the network in the network
// namespace of the thread.
package sysctl

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const root = "/proc/sys"

// Tree has the parameters. It reads them through a mount of procfs of its own: in /proc/sys
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

// Close unmounts. The tree is then as its zero value.
func (t *Tree) Close() error {
	mount := t.mount
	*t = Tree{}
	if mount == nil {
		return nil
	}
	return mount.Close()
}

// Get returns the value of a parameter, a path like net/ipv4/ip_forward, without the end of its
// line. Errors are *fs.PathError with a path in /proc/sys.
func (t *Tree) Get(key string) (string, error) {
	file, err := t.open(key, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // read only
	value, err := io.ReadAll(file)
	return strings.TrimSuffix(string(value), "\n"), err
}

// Set sets a parameter. Errors are as those of Get; one that does not exist is fs.ErrNotExist.
func (t *Tree) Set(key, value string) error {
	file, err := t.open(key, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

func (t *Tree) open(key string, flags int) (*os.File, error) {
	if !t.opened {
		t.opened = true
		t.mount, _ = mountProc() // without it /proc/sys does
	}
	path := root + "/" + key
	if t.mount == nil {
		return os.OpenFile(path, flags, 0)
	}
	fd, err := unix.Openat(int(t.mount.Fd()), "sys/"+key, flags|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrPermission) { // Landlock and AppArmor may allow paths alone
		return os.OpenFile(path, flags, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// mountProc returns the root of a mount of procfs that is nowhere in the file system.
func mountProc() (*os.File, error) {
	if !mounts.isPlain() {
		return nil, unix.EROFS
	}
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
