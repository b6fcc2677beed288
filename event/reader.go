// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package event

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/state"
)

// pollInterval is how often a follower looks for new events. It polls, because inotify's
// instances are few, its watches are lost with current at each rotation, and one stat(2)
// is cheap.
const pollInterval = 250 * time.Millisecond

// Log is the events of a state directory, for reading. The zero value is that of
// state.DefaultDir.
type Log struct {
	// StateDir is the state directory. Default: state.DefaultDir. One that does not
	// exist has no events.
	StateDir string
}

// Events yields the events that the filter selects, the oldest first. With follow it then
// waits for new ones, until ctx ends. An error ends it.
func (l Log) Events(ctx context.Context, f Filter, follow bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := &reader{ring: newRing(cmp.Or(l.StateDir, state.DefaultDir)), last: f.After}
		defer r.close()
		ticker := time.NewTicker(pollInterval)
		defer ticker.Stop()
		for {
			found, err := r.read()
			for _, e := range found {
				if f.selects(e) && !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(Event{}, fmt.Errorf("read the events: %w", err))
				return
			}
			if !follow {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}
}

// reader reads the events after the last one that it has read. It takes no lock.
type reader struct {
	ring *ring
	last uint64
	// current is open; nil before the first read, and while there is none.
	current *os.File
	// offset is the end of the last complete line that was read of it.
	offset int64
}

func (r *reader) close() {
	if r.current != nil {
		_ = r.current.Close() // read only
		r.current = nil
	}
}

// read returns new events. After a rotation it first reads the rest of the file that was
// current, to which nothing is appended any more.
func (r *reader) read() ([]Event, error) {
	same, err := r.isCurrent()
	if err != nil {
		return nil, err
	}
	rest, err := r.readLines()
	found := r.parse(rest)
	if err != nil || same {
		return found, err
	}
	more, err := r.reopen()
	return append(found, more...), err
}

// isCurrent tells whether the file that is open still is current.
func (r *reader) isCurrent() (bool, error) {
	named, err := os.Stat(r.ring.path(currentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || r.current == nil {
		return false, err
	}
	opened, err := r.current.Stat()
	return err == nil && os.SameFile(named, opened), err
}

// reopen opens current, and reads both files. It opens current first: if a rotation
// comes before previous is read, the next read finds that current is another file.
func (r *reader) reopen() ([]Event, error) {
	r.close()
	r.offset = 0
	current, err := openToRead(r.ring.path(currentFile))
	if err != nil {
		return nil, err
	}
	r.current = current
	previous, err := openToRead(r.ring.path(previousFile))
	if err != nil {
		return nil, err
	}
	var kept []byte
	if previous != nil {
		kept, err = io.ReadAll(previous)
		if err = errors.Join(err, previous.Close()); err != nil {
			return nil, err
		}
	}
	rest, err := r.readLines()
	if newest := max(lastIndex(kept), lastIndex(rest)); newest > 0 && newest < r.last {
		r.last = 0 // the events are of a new directory, or a power cut lost some
	}
	return append(r.parse(kept), r.parse(rest)...), err
}

// openToRead returns nil for a file that does not exist.
func openToRead(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return file, err
}

// readLines reads the complete lines of current that it has not read.
func (r *reader) readLines() ([]byte, error) {
	if r.current == nil {
		return nil, nil
	}
	info, err := r.current.Stat()
	if err != nil || info.Size() <= r.offset {
		return nil, err
	}
	data := make([]byte, info.Size()-r.offset)
	n, err := r.current.ReadAt(data, r.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	complete := bytes.LastIndexByte(data[:n], '\n') + 1
	r.offset += int64(complete)
	return data[:complete], nil
}

// parse returns the events of lines that are newer than the last one.
func (r *reader) parse(lines []byte) []Event {
	var found []Event
	for line := range bytes.Lines(lines) {
		if e, ok := parse(line); ok && e.Index > r.last {
			found = append(found, e)
			r.last = e.Index
		}
	}
	return found
}
