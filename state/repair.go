// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Repair writes a record anew, without damage. The files that had it are kept in
// the directory "damaged".
func (l *Locked) Repair(r Record) error {
	aside := filepath.Join(l.store.dir, "damaged", l.id)
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(l.dir())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, entry := range entries {
		if isRecord(entry.Name()) {
			to := filepath.Join(aside, fmt.Sprintf("%s.%d", entry.Name(), time.Now().UnixNano()))
			if err := os.Link(filepath.Join(l.dir(), entry.Name()), to); err != nil {
				return fmt.Errorf("keep the damaged record: %w", err)
			}
		}
	}
	if err := l.replace(r.changes()); err != nil {
		return err
	}
	for _, entry := range entries {
		if isOldLayout(entry.Name()) {
			err = errors.Join(err, os.Remove(filepath.Join(l.dir(), entry.Name())))
		}
	}
	return err
}

// dropTornLine removes a line without an end that a killed process left. That it is
// no damage shows from the lock file, which a process that ends removes.
func (l *Locked) dropTornLine() error {
	data, err := readRegular(l.path())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
		return nil
	}
	if err != nil {
		return err
	}
	if end := whole(data); end > 0 && end < len(data) {
		return os.Truncate(l.path(), int64(end))
	}
	return nil
}
