// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/files"
)

// Load returns what is recorded. Damage is reported and left as it is. The
// error for no record is ErrNotFound.
func (l *Locked) Load() (Record, error) {
	return read(l.journal.dir, tornWithLock)
}

// Begin records an allocation and attachments: when it returns nil they outlast
// this process, and after Sync a power cut. Repeated it replaces them.
func (l *Locked) Begin(a Allocation, attachments []Attachment) error {
	for _, attachment := range attachments {
		if err := validateInterface(attachment.Interface); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(attachments, func(a Attachment) bool { return a.ChosenPorts != nil }) {
		if err := l.addMark(portMarks); err != nil {
			return err
		}
	}
	return l.journal.begin(Record{Allocation: a, Attachments: attachments}.changes())
}

// Sync makes what is on record outlast a power cut. It may run while
// attachments are written.
func (l *Locked) Sync() error {
	file, err := l.journal.opened()
	if err != nil {
		return err
	}
	disk := l.store.disk
	var group errgroup.Group // at the same time they cost little more than one
	group.Go(func() error { return disk.syncData(file) })
	group.Go(func() error { return disk.syncPath(l.journal.dir) })
	group.Go(func() error { return disk.syncPath(l.store.allocations()) })
	return group.Wait()
}

// WriteDurable records an attachment so that it outlasts a power cut. The allocation
// has to be on record. In phase Pending the allocation is among Store.Pending
// until it is cleared.
func (l *Locked) WriteDurable(a Attachment) error {
	if a.Phase == Pending { // marked first: a mark too many is harmless
		if err := l.addMark(pendingMarks); err != nil {
			return err
		}
	}
	if err := l.Write(a); err != nil {
		return err
	}
	return errors.Join(l.Sync(), l.journal.shrink())
}

// Write records attachments, all of them or none, so that they outlast this process, but
// perhaps not a power cut: for what only matters as long as the machine runs. The
// allocation has to be on record.
func (l *Locked) Write(attachments ...Attachment) error {
	if err := l.markLeases(attachments); err != nil {
		return err
	}
	var c change
	switch len(attachments) {
	case 0:
		return nil
	case 1:
		c.Attachment = &attachments[0]
	default:
		c.Attachments = attachments
	}
	return l.journal.record(c)
}

// WriteAllocation is Write for the allocation itself.
func (l *Locked) WriteAllocation(a Allocation) error {
	return l.journal.record(change{Allocation: &a})
}

// Delete forgets an attachment; one that is not recorded is fine. Its previous routes
// become those of the allocation. It needs no room on the disk. A record that a power cut
// brings back is torn down again.
func (l *Locked) Delete(iface string) error {
	if err := validateInterface(iface); err != nil {
		return err
	}
	return files.UnlessMissing(l.journal.recordShort(change{Forgotten: iface}))
}

// WriteDeleting records that the removal of attachments on record begins, of all of them
// or none. It is for a disk without room for Write, and needs none, if it is called once
// for an attachment.
func (l *Locked) WriteDeleting(attachments ...Attachment) error {
	if len(attachments) == 0 {
		return nil
	}
	var c change
	for _, a := range attachments {
		d := deletion{Interface: a.Interface}
		if a.Batch.Kind == BatchDetach { // the other kinds are on record
			d.Batch = a.Batch
		}
		c.Deleting = append(c.Deleting, d)
	}
	return l.journal.recordShort(c)
}

// Clear forgets the allocation; one that is not recorded is fine.
func (l *Locked) Clear() error {
	l.journal.mu.Lock()
	l.journal.close()
	l.journal.mu.Unlock()
	if err := l.store.disk.remove(l.journal.dir, os.RemoveAll); err != nil {
		return err
	}
	return errors.Join(l.removeMark(pendingMarks), l.removeMark(portMarks), l.removeMark(leaseMarks))
}
