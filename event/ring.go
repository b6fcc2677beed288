// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
)

const (
	folder       = "events"
	currentFile  = "current"
	previousFile = "previous"

	// fullSize is the size from which current becomes part of previous.
	fullSize = 512 << 10
	keptSize = 2 << 20
	// lockTimeout is how long an append waits for the lock.
	lockTimeout = time.Second
)

var errLocked = errdefs.New(errdefs.Unavailable, "is locked by another process")

// ring is the folder of the events of a state directory.
type ring struct {
	dir string
	// full and kept are fullSize and keptSize; tests have smaller ones.
	full, kept int64
	// timeout is lockTimeout; tests have another one.
	timeout time.Duration
}

func newRing(stateDir string) *ring {
	return &ring{dir: filepath.Join(stateDir, folder), full: fullSize, kept: keptSize, timeout: lockTimeout}
}

func (r *ring) path(name string) string { return filepath.Join(r.dir, name) }

// append adds events, in one write each. What fails in part is taken back.
func (r *ring) append(e Event) error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	file, size, err := r.open()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // each write has told its error
	tail, err := readTail(file, size)
	if err != nil {
		return err
	}
	if e.Index = lastIndex(tail); e.Index == 0 {
		if e.Index, err = r.lastKept(); err != nil {
			return err
		}
	}
	e.Index++
	line, err := lineOf(e)
	if err != nil {
		return err
	}
	if len(tail) > 0 && tail[len(tail)-1] != '\n' { // of a killed process
		line = append([]byte("\n"), line...)
	}
	if n, err := file.Write(line); err != nil {
		if n > 0 {
			err = errors.Join(err, file.Truncate(size))
		}
		return err
	}
	return nil
}

// lock makes the folder if it is missing, and locks it.
func (r *ring) lock() (unlock func(), err error) {
	dir, err := os.Open(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(r.dir, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			dir, err = os.Open(r.dir)
		}
	}
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeoutCause(context.Background(), r.timeout, errLocked)
	defer stop()
	if err := files.Lock(ctx, dir, unix.LOCK_EX); err != nil {
		_ = dir.Close() // read only
		return nil, fmt.Errorf("%s %w", r.dir, err)
	}
	return func() { files.CloseLocked(dir) }, nil
}

// open opens current for appending, after a rotation if it is full.
func (r *ring) open() (file *os.File, size int64, err error) {
	for range 2 {
		file, err = os.OpenFile(r.path(currentFile), os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, 0, err
		}
		info, err := file.Stat()
		if err == nil && info.Size() < r.full {
			return file, info.Size(), nil
		}
		if err == nil {
			err = r.rotate()
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, 0, fmt.Errorf("rotate: %w", err)
		}
	}
	return nil, 0, fmt.Errorf("rotate: %s is full again", r.path(currentFile))
}

// rotate puts the events of current into previous. Processes that read current keep what
// they have open.
func (r *ring) rotate() error {
	var all []byte
	for _, name := range []string{previousFile, currentFile} {
		data, err := os.ReadFile(r.path(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		all = append(append(all, data...), '\n') // a torn line ends here
	}
	if err := files.Replace(r.path(previousFile), thin(all, r.kept), files.Options{}); err != nil {
		return err
	}
	return os.Remove(r.path(currentFile))
}

// lastKept returns the index of the newest event of previous; 0 if there is none.
func (r *ring) lastKept() (uint64, error) {
	file, err := openToRead(r.path(previousFile))
	if err != nil || file == nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // read only
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	tail, err := readTail(file, info.Size())
	return lastIndex(tail), err
}

// readTail returns the end of a file: some lines, of which the first may lack its
// beginning. If none of them is an event, it is the whole file.
func readTail(file io.ReaderAt, size int64) ([]byte, error) {
	for length := min(size, 2*maxLine); ; length = size {
		tail := make([]byte, length)
		if _, err := file.ReadAt(tail, size-length); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if length == size || lastIndex(tail) > 0 {
			return tail, nil
		}
	}
}

// lastIndex returns the index of the last line that has one, of any format; 0 if none
// has.
func lastIndex(data []byte) uint64 {
	for len(data) > 0 {
		data = bytes.TrimSuffix(data, []byte("\n"))
		start := bytes.LastIndexByte(data, '\n') + 1
		if index := ownerOf(data[start:]).Index; index > 0 {
			return index
		}
		data = data[:start]
	}
	return 0
}
