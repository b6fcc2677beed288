// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/keylock"
)

// Store is a state directory. It may be used concurrently, and by several
// processes.
type Store struct {
	dir   string
	locks keylock.Locks
}

// Open returns the store in dir, which is made, readable by its owner only,
// when it is missing. A directory in which another user could write is an
// error: records name programs that are executed.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
	err := makePrivate(dir, os.Stat) // an operator may have it elsewhere, by a link
	for _, sub := range []string{s.allocations(), filepath.Join(dir, "locks")} {
		if err == nil {
			err = makePrivate(sub, os.Lstat)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return s, nil
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
	return private(path, info)
}

// private refuses what others than root and this process's user can change.
func private(path string, info fs.FileInfo) error {
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	case owner != 0 && owner != uint32(os.Geteuid()):
		return fmt.Errorf("%s belongs to user %d: want root", path, owner)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s has mode %#o: want one in which nobody else can write, such as 0700", path, info.Mode().Perm())
	}
	return nil
}

func (s *Store) allocations() string { return filepath.Join(s.dir, "allocations") }

func (s *Store) allocationDir(id string) string { return filepath.Join(s.allocations(), id) }

func (s *Store) lockPath(id string) string { return filepath.Join(s.dir, "locks", id) }

// Read returns what is recorded of an allocation, without its lock: while it
// is being set up or torn down the record is that of an instant. Damaged files
// are reported and left. The error for no record is ErrNotFound.
func (s *Store) Read(id string) (Record, error) {
	if err := ValidateID(id); err != nil {
		return Record{}, err
	}
	return s.read(id, func(_, path string) string { return path })
}

// IDs returns the recorded allocations, sorted.
func (s *Store) IDs() ([]string, error) {
	entries, err := os.ReadDir(s.allocations())
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

// List yields all records in the order of their IDs. An allocation that cannot
// be read yields an UnreadableError, and the rest still follow; any other error
// is of the whole list.
func (s *Store) List(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		ids, err := s.IDs()
		if err != nil {
			yield(Record{}, err)
			return
		}
		for _, id := range ids {
			if ctx.Err() != nil {
				yield(Record{}, context.Cause(ctx))
				return
			}
			record, err := s.Read(id)
			if errors.Is(err, ErrNotFound) { // gone since it was listed
				continue
			}
			if err != nil {
				err = &UnreadableError{id, err}
			}
			if !yield(record, err) {
				return
			}
		}
	}
}

const (
	allocationFile   = "allocation.json"
	attachmentPrefix = "attachment-"
	suffix           = ".json"
)

func attachmentFile(iface string) string { return attachmentPrefix + iface + suffix }

// isRecord tells a record's files from temporary ones.
func isRecord(name string) bool {
	return name == allocationFile || strings.HasPrefix(name, attachmentPrefix)
}

// read collects the files of an allocation. aside says what becomes of a
// damaged file: it returns the path where the file then is.
func (s *Store) read(id string, aside func(id, path string) string) (Record, error) {
	dir := s.allocationDir(id)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, fmt.Errorf("allocation %s %w", id, ErrNotFound)
	}
	if err != nil {
		return Record{}, fmt.Errorf("allocation %s: %w", id, err)
	}
	r := Record{Allocation: Allocation{ID: id}}
	found := false
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		ok, err := r.readFile(path)
		found = found || ok || err != nil
		var version *VersionError
		switch {
		case err == nil:
		case errors.As(err, &version):
			return Record{}, err
		case errors.Is(err, fs.ErrNotExist): // torn down meanwhile
		default:
			r.Damaged = append(r.Damaged, Damaged{Path: aside(id, path), Original: path, Err: err})
		}
	}
	if !found {
		return Record{}, fmt.Errorf("allocation %s %w", id, ErrNotFound)
	}
	slices.SortFunc(r.Attachments, func(a, b Attachment) int { return cmp.Compare(a.Index, b.Index) })
	return r, nil
}

// readFile adds one file to the record. It tells whether it was one of ours:
// temporary files are not.
func (r *Record) readFile(path string) (bool, error) {
	name := filepath.Base(path)
	if !isRecord(name) {
		return false, nil
	}
	iface, isAttachment := strings.CutPrefix(name, attachmentPrefix)
	data, err := readRegular(path)
	if err != nil {
		return true, err
	}
	if !isAttachment {
		return true, r.readAllocation(data, path)
	}
	var a Attachment
	if err := decode(data, path, &a); err != nil {
		return true, err
	}
	if a.Interface+suffix != iface {
		return true, fmt.Errorf("is the record of interface %q", a.Interface)
	}
	r.Attachments = append(r.Attachments, a)
	return true, nil
}

// readRegular neither follows a link nor waits for a pipe.
func readRegular(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, errNotRegular
	}
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errNotRegular, err)
	}
	return io.ReadAll(file)
}

var errNotRegular = errors.New("is not a regular file")

func (r *Record) readAllocation(data []byte, path string) error {
	var a Allocation
	if err := decode(data, path, &a); err != nil {
		return err
	}
	if a.ID != r.Allocation.ID {
		return fmt.Errorf("is the record of allocation %q", a.ID)
	}
	r.Allocation = a
	return nil
}
