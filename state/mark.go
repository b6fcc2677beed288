// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/allocnet/allocnet/internal/files"
)

// A mark is an empty file, named after an allocation, in a directory that says
// something about it, so that not all records are read to find it. It is set
// before the record says so, and removed after: a mark too many is harmless.

// marked returns the IDs of the allocations that have a mark in a directory, in order.
func marked(dir string) ([]string, error) {
	entries, err := files.IfExists(os.ReadDir(dir))
	var ids []string
	for _, entry := range entries {
		if ValidateID(entry.Name()) == nil {
			ids = append(ids, entry.Name())
		}
	}
	return ids, err
}

// markedUnrecorded returns the IDs that have a mark and no record.
func (s *Store) markedUnrecorded() ([]string, error) {
	recorded, err := s.IDs()
	if err != nil {
		return nil, err
	}
	var all []string
	var errs []error
	for _, marks := range []string{pendingMarks, portMarks, leaseMarks} {
		ids, err := marked(filepath.Join(s.dir, marks))
		all, errs = append(all, ids...), append(errs, err)
	}
	return slices.DeleteFunc(all, func(id string) bool {
		_, found := slices.BinarySearch(recorded, id)
		return found
	}), errors.Join(errs...)
}

func (l *Locked) addMark(marks string) error {
	file, err := l.store.disk.create(filepath.Join(l.store.dir, marks, l.id), os.O_WRONLY)
	if err != nil {
		return err
	}
	return file.Close()
}

// removeMark removes a mark; one that is not set is fine.
func (l *Locked) removeMark(marks string) error {
	return files.UnlessMissing(l.store.disk.remove(filepath.Join(l.store.dir, marks, l.id), os.Remove))
}
