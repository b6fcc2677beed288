// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openRegular opens a regular file, or a link to one. Anything else is an error at once: to open a
// pipe, or to read it, may never end, and nothing kills this process.
func openRegular(path string, flags int, perm os.FileMode) (*os.File, error) {
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

// readRegular returns the content of a regular file.
func readRegular(path string) ([]byte, error) {
	file, err := openRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	return io.ReadAll(file)
}

// writeRegular replaces the content of a regular file, making it if it is missing.
func writeRegular(path string, content []byte, perm os.FileMode) error {
	file, err := openRegular(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
