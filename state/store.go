// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/allocnet/allocnet/internal/files"
)

// Store is a state directory. It may be used concurrently, and by several
// processes.
type Store struct {
	dir   string
	locks files.KeyLocks
	disk  disk
	// readOnly is that of OpenReadOnly.
	readOnly bool
}

// Open returns the store in dir, which is made, readable by its owner only,
// when it is missing. A directory in which another user could write is an
// error: records name programs that are executed.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, disk: makeChange}
	err := makePrivate(dir, os.Stat) // an operator may have it elsewhere, by a link
	for _, sub := range []string{"allocations", "locks", pendingMarks, portMarks, leaseMarks, bridgeLock, isolationDir} {
		if err == nil {
			err = makePrivate(filepath.Join(dir, sub), os.Lstat)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return s, nil
}

// OpenReadOnly returns the store in dir for a user who may read it. It makes nothing, and
// a directory that does not exist has no records. Without the right to read a record,
// the record is unknown, and not damaged.
func OpenReadOnly(dir string) (*Store, error) {
	s := &Store{dir: dir, disk: refuseChange, readOnly: true}
	for path, stat := range map[string]func(string) (fs.FileInfo, error){dir: os.Stat, s.allocations(): os.Lstat} {
		info, err := stat(path)
		if err == nil {
			err = files.CheckPrivate(path, info)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("state directory: %w", err)
		}
	}
	return s, nil
}

func refuseChange(op, path string, _ func() error) error {
	return fmt.Errorf("%s %s: the state directory is open for reading", op, path)
}

// makePrivate makes a directory where there is none, and refuses one that
// others can change. Nothing is made in what it refuses.
func makePrivate(path string, stat func(string) (fs.FileInfo, error)) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	info, err := stat(path)
	if err != nil {
		return err
	}
	return files.CheckPrivate(path, info)
}

func (s *Store) allocations() string { return filepath.Join(s.dir, "allocations") }

func (s *Store) allocationDir(id string) string { return filepath.Join(s.allocations(), id) }

// refuseLink refuses a link in the place of an allocation's directory: what is written there would be another's.
func refuseLink(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return nil // reading it has the error
	}
	return fmt.Errorf("allocation %s: %s is a link, want a directory: remove the link", filepath.Base(dir), dir)
}

func (s *Store) lockPath(id string) string { return filepath.Join(s.dir, "locks", id) }

// Read returns what is recorded of an allocation, without its lock: while it
// is being set up or torn down the record is that of an instant. Damage is
// reported and left. The error for no record is ErrNotFound.
func (s *Store) Read(id string) (Record, error) {
	if err := ValidateID(id); err != nil {
		return Record{}, err
	}
	record, err := read(s.allocationDir(id), tornWithout(s.lockPath(id)))
	for _, d := range record.Damaged {
		if s.readOnly && errors.Is(d.Err, fs.ErrPermission) {
			return Record{}, d.Err
		}
	}
	return record, err
}

// Version returns a text that is another one after each change of a record: it has the sizes and times of all journals.
func (s *Store) Version() (string, error) {
	ids, err := s.IDs()
	sum := fnv.New64a()
	for _, id := range ids {
		info, err := os.Lstat(filepath.Join(s.allocationDir(id), journalFile))
		if err != nil {
			continue // it is being made or removed: the next one is another text
		}
		_, _ = fmt.Fprintln(sum, id, info.Size(), info.ModTime().UnixNano()) // it has no error
	}
	return strconv.FormatUint(sum.Sum64(), 16), err
}

// IDs returns the recorded allocations, sorted.
func (s *Store) IDs() ([]string, error) {
	entries, err := os.ReadDir(s.allocations())
	if s.readOnly && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list allocations: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		if entry.IsDir() && ValidateID(entry.Name()) == nil {
			ids = append(ids, entry.Name())
		}
	}
	return ids, nil
}

// Resolve returns the recorded allocation that has the ID, or else the only one whose
// ID begins with it. The error is ErrNotFound or an *AmbiguousIDError.
func (s *Store) Resolve(id string) (string, error) {
	if err := ValidateID(id); err != nil {
		return "", err
	}
	if info, err := os.Lstat(s.allocationDir(id)); err == nil && info.IsDir() {
		return id, nil
	}
	all, err := s.IDs()
	if err != nil {
		return "", err
	}
	matching := slices.DeleteFunc(all, func(other string) bool { return !strings.HasPrefix(other, id) })
	switch len(matching) {
	case 0:
		return "", fmt.Errorf("allocation %s %w", id, ErrNotFound)
	case 1:
		return matching[0], nil
	}
	return "", &AmbiguousIDError{id, matching}
}

// List yields all records in the order of their IDs. An allocation that cannot
// be read yields an UnreadableError, and the rest still follow; any other error
// is of the whole list.
func (s *Store) List(ctx context.Context) iter.Seq2[Record, error] { return s.list(ctx, s.IDs) }

func (s *Store) list(ctx context.Context, listIDs func() ([]string, error)) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		ids, err := listIDs()
		if err != nil {
			yield(Record{}, err)
			return
		}
		for _, id := range ids {
			if ctx.Err() != nil {
				yield(Record{}, context.Cause(ctx))
				return
			}
			record, ok, err := s.readListed(id)
			if (ok || err != nil) && !yield(record, err) {
				return
			}
		}
	}
}

// readListed reads a record that was listed; ok is false if that has an UnreadableError, or if it is gone since.
func (s *Store) readListed(id string) (r Record, ok bool, err error) {
	r, err = s.Read(id)
	if errors.Is(err, ErrNotFound) {
		return r, false, nil
	}
	if err != nil {
		return r, false, &UnreadableError{id, err}
	}
	return r, true, nil
}
