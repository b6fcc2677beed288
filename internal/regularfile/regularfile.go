// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package regularfile opens files whose path another program may have put a pipe at.
package regularfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a regular file, or a link to one. Anything else is an error at once: to open a
// pipe, or to read it, may never end, and nothing kills this process.
func Open(path string, flags int, perm os.FileMode) (*os.File, error) {
	file, err := os.OpenFile(path, flags|unix.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s has the mode %s: want a regular file", path, info.Mode())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Read returns the content of a regular file.
func Read(path string) ([]byte, error) {
	file, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	return io.ReadAll(file)
}

// Write replaces the content of a regular file, making it if it is missing.
func Write(path string, content []byte, perm os.FileMode) error {
	file, err := Open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
