// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

func (l *Locked) dir() string { return l.store.allocationDir(l.id) }

// Load returns what is recorded. Damaged files are set aside. The error for no
// record is ErrNotFound.
func (l *Locked) Load() (Record, error) {
	return l.store.read(l.id, l.store.setAside)
}

// setAside moves a damaged file out of the way, under a name that is not
// taken, and returns where it is.
func (s *Store) setAside(id, path string) string {
	dir := filepath.Join(s.dir, "damaged", id)
	if os.MkdirAll(dir, 0o700) != nil {
		return path
	}
	to := filepath.Join(dir, fmt.Sprintf("%s.%d", filepath.Base(path), time.Now().UnixNano()))
	if os.Rename(path, to) != nil {
		return path
	}
	return to
}

// Begin records an allocation and attachments: when it returns nil they outlast
// this process, and after Sync a power cut. Repeated it replaces them.
func (l *Locked) Begin(a Allocation, attachments []Attachment) error {
	err := os.Mkdir(l.dir(), 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var group errgroup.Group
	group.Go(func() error { return l.write(allocationFile, a, false) })
	for _, attachment := range attachments {
		group.Go(func() error { return l.Mark(attachment) })
	}
	return group.Wait()
}

// Sync makes what is on record outlast a power cut. It may run while
// attachments are written.
func (l *Locked) Sync() error {
	entries, err := os.ReadDir(l.dir())
	if err != nil {
		return err
	}
	var group errgroup.Group // at the same time they cost little more than one
	group.Go(func() error { return syncPath(l.store.allocations()) })
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") { // temporary
			continue
		}
		group.Go(func() error { return syncPath(filepath.Join(l.dir(), entry.Name())) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return syncPath(l.dir())
}

// Put records an attachment so that it outlasts a power cut. The allocation
// has to be on record. In phase Pending the allocation is among Store.Pending
// until it is cleared.
func (l *Locked) Put(a Attachment) error {
	if a.Phase == Pending { // marked first: a mark too many is harmless
		if err := l.setPending(); err != nil {
			return err
		}
	}
	if err := l.writeAttachment(a, true); err != nil {
		return err
	}
	return syncPath(l.dir())
}

// Mark records an attachment so that it outlasts this process, but perhaps not
// a power cut: for what only matters as long as the machine runs. The
// allocation has to be on record.
func (l *Locked) Mark(a Attachment) error {
	return l.writeAttachment(a, false)
}

// Delete forgets an attachment; one that is not recorded is fine. A record
// that a power cut brings back is torn down again.
func (l *Locked) Delete(iface string) error {
	if err := validateInterface(iface); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(l.dir(), attachmentFile(iface)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Clear forgets the allocation; one that is not recorded is fine.
func (l *Locked) Clear() error {
	if err := os.RemoveAll(l.dir()); err != nil {
		return err
	}
	return l.ClearPending()
}

func (l *Locked) writeAttachment(a Attachment, durable bool) error {
	if err := validateInterface(a.Interface); err != nil {
		return err
	}
	return l.write(attachmentFile(a.Interface), a, durable)
}

// write replaces a file. The temporary name is fixed: the lock keeps others
// away, and what a killed process left is overwritten.
func (l *Locked) write(name string, record any, durable bool) error {
	data, err := encode(record)
	if err != nil {
		return fmt.Errorf("allocation %s: encode %s: %w", l.id, strings.TrimSuffix(name, suffix), err)
	}
	path := filepath.Join(l.dir(), name)
	temporary := filepath.Join(l.dir(), "."+name)
	if err := writeFile(temporary, data, durable); err != nil {
		return fmt.Errorf("allocation %s: %w", l.id, err)
	}
	return os.Rename(temporary, path)
}

func writeFile(path string, data []byte, durable bool) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil && durable {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
