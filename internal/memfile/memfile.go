// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package memfile makes files in memory, for the standard input of programs: a pipe holds no more than
// 64 KiB while nothing reads it.
package memfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// New returns a file with the content, at its begin.
func New(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "stdin")
	_, err = file.Write(content)
	if err == nil {
		_, err = file.Seek(0, 0)
	}
	if err != nil {
		_ = file.Close() // nothing reads it
		return nil, err
	}
	return file, nil
}
