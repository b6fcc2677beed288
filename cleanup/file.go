// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// file is a file that one allocation owns.
type file struct {
	path string
	// content is what it held when it was found.
	content string
	// leases is the directory of leases that it is in; empty elsewhere.
	leases string
}

// same tells whether the file holds what it held when it was found.
func (f *file) same() bool {
	content, err := readRegular(f.path)
	return err == nil && content == f.content
}

// remove removes the file unless it holds something else by now.
func (f *file) remove() error {
	content, err := readRegular(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if content != f.content {
		return fmt.Errorf("%s has changed since it was looked at", f.path)
	}
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readRegular reads a regular file: where others may write, a link could lead
// anywhere, and a pipe keep its reader. Files of the kinds looked for are small.
func readRegular(path string) (string, error) {
	const limit = 16 << 20
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // read only
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() > limit {
		return "", fmt.Errorf("%s has %d bytes, want at most %d", path, info.Size(), limit)
	}
	data, err := io.ReadAll(file)
	return string(data), err
}
