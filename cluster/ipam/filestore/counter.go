// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// counter returns the index of the last change. Without the file, as in a new directory, it is
// the time in milliseconds, so that a store that replaces a lost one does not repeat its
// indexes, or the highest index of an entry.
func (s *Store) counter() (uint64, error) {
	_, index, err := readFile(filepath.Join(s.dir, counterName))
	if !errors.Is(err, fs.ErrNotExist) {
		return index, err
	}
	entries, err := s.entries("")
	index = uint64(max(1, time.Now().UnixMilli()))
	for _, entry := range entries {
		index = max(index, entry.Index)
	}
	return index, err
}

// count returns the index of the next change. It is on disk before the change is: a change
// that is interrupted leaves a gap.
func (s *Store) count() (uint64, error) {
	index, err := s.counter()
	if err != nil {
		return 0, err
	}
	index++
	return index, files.Replace(filepath.Join(s.dir, counterName), encode(nil, index), files.Options{Durable: true})
}

// longestWait is how long List waits for a change.
const longestWait = 10 * time.Second

// awaitChange waits until the counter is not as it was.
func (s *Store) awaitChange(ctx context.Context, after uint64) error {
	if ctx.Err() != nil {
		return s.unavailable(context.Cause(ctx))
	}
	events, err := s.watch()
	if err != nil {
		return s.unavailable(err)
	}
	defer events.Close() //nolint:errcheck // only read
	stop := context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := events.SetReadDeadline(time.Now().Add(longestWait)); err != nil {
		return s.unavailable(err)
	}
	for buffer := make([]byte, 4096); ctx.Err() == nil; {
		_, now, err := readFile(filepath.Join(s.dir, counterName))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && now != after {
			return nil // and the list has the error
		}
		if _, err := events.Read(buffer); errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
			return nil
		} else if err != nil && ctx.Err() == nil {
			return s.unavailable(err)
		}
	}
	return s.unavailable(context.Cause(ctx))
}

// watch returns a file to read events of the directory from: each change replaces the counter.
func (s *Store) watch() (*os.File, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, s.dir, unix.IN_MOVED_TO); err != nil {
		_ = events.Close() // the other error counts
		return nil, fmt.Errorf("inotify: %w", err)
	}
	return events, nil
}
