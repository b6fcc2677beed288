// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/allocnet/allocnet/internal/files"
)

// Repair writes a record anew, without damage. The file that had it is kept in
// the directory "damaged".
func (l *Locked) Repair(r Record) error {
	aside := filepath.Join(l.store.dir, "damaged", l.id)
	if err := l.store.disk.mkdir(aside, os.MkdirAll); err != nil {
		return err
	}
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	to := filepath.Join(aside, fmt.Sprintf("%s.%d", journalFile, time.Now().UnixNano()))
	if err := files.UnlessMissing(l.store.disk.link(l.journal.path(), to)); err != nil {
		return fmt.Errorf("keep the damaged record: %w", err)
	}
	return l.journal.replace(r.changes())
}

// dropTornLine removes the part of a line that a killed process left. That it is no
// damage shows from the lock file, which a process that ends removes. What has a
// whole line before its end is no part of one: it gets a newline.
func (j *journal) dropTornLine() error {
	data, err := files.IfExists(files.ReadNoFollow(j.path()))
	if errors.Is(err, files.ErrNotRegular) {
		return nil
	}
	if err != nil {
		return err
	}
	end := whole(data)
	if end == 0 || end == len(data) {
		return nil
	}
	if rest := data[end:]; !isLine(rest) && !isLine(rest[:len(rest)-1]) {
		return j.disk.truncatePath(j.path(), int64(end))
	}
	if err := j.open(); err != nil {
		return err
	}
	_ = j.write(nil) // on a full disk it stays as it is, which is damage
	return nil
}

func isLine(data []byte) bool {
	_, err := decode(data)
	return err == nil
}
