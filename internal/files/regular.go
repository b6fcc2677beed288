// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is the error for a path that has something else than a file.
var ErrNotRegular = errors.New("is not a regular file")

// Open opens a regular file, or a link to one unless the flags have unix.O_NOFOLLOW. Anything
// else is ErrNotRegular at once: to open a pipe, or to read it, may never end, and nothing
// kills this process.
func Open(path string, flags int, perm os.FileMode) (*os.File, error) {
	file, err := os.OpenFile(path, flags|unix.O_NONBLOCK, perm)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("%s %w", path, ErrNotRegular)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s %w", path, ErrNotRegular)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Read returns the content of a regular file, or of one that a link leads to.
func Read(path string) ([]byte, error) { return read(path, os.O_RDONLY) }

// ReadNoFollow returns the content of a regular file. A link is ErrNotRegular: where others
// may write, it could lead anywhere.
func ReadNoFollow(path string) ([]byte, error) { return read(path, os.O_RDONLY|unix.O_NOFOLLOW) }

func read(path string, flags int) ([]byte, error) { return ReadStart(path, flags, math.MaxInt64) }

// mostAhead is how large files are for which memory is taken at once: that of others may have holes.
const mostAhead = 16 << 20

// ReadStart returns what a regular file begins with, at most so many bytes. The flags are those of Open.
func ReadStart(path string, flags int, most int64) ([]byte, error) {
	file, err := Open(path, flags, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	content := bytes.NewBuffer(make([]byte, 0, min(info.Size(), most, mostAhead)+bytes.MinRead)) // a file of /proc or /sys has no size
	_, err = content.ReadFrom(io.LimitReader(file, most))
	return content.Bytes(), err
}

// Overwrite replaces the content of a regular file, making it if it is missing.
func Overwrite(path string, content []byte, perm os.FileMode) error {
	file, err := Open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// IfExists makes of a file, or what else is looked for, that does not exist the zero value.
func IfExists[T any](found T, err error) (T, error) {
	if errors.Is(err, fs.ErrNotExist) {
		var none T
		return none, nil
	}
	return found, err
}

// UnlessMissing is the error, unless it is that something does not exist.
func UnlessMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
