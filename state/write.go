// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

func (l *Locked) dir() string { return l.store.allocationDir(l.id) }

func (l *Locked) path() string { return filepath.Join(l.dir(), journalFile) }

// Load returns what is recorded. Damage is reported and left as it is. The
// error for no record is ErrNotFound.
func (l *Locked) Load() (Record, error) {
	return l.store.read(l.id, tornWithLock)
}

// Begin records an allocation and attachments: when it returns nil they outlast
// this process, and after Sync a power cut. Repeated it replaces them.
func (l *Locked) Begin(a Allocation, attachments []Attachment) error {
	for _, attachment := range attachments {
		if err := validateInterface(attachment.Interface); err != nil {
			return err
		}
	}
	if choosesPorts(attachments) {
		if err := l.addMark(portMarks); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	changes := Record{Allocation: a, Attachments: attachments}.changes()
	err := l.open()
	if errors.Is(err, fs.ErrNotExist) {
		return l.create(changes)
	}
	if err == nil {
		err = l.compact()
	}
	if err != nil {
		return err
	}
	return l.add(changes...)
}

// Sync makes what is on record outlast a power cut. It may run while
// attachments are written.
func (l *Locked) Sync() error {
	l.mu.Lock()
	err := l.open()
	file := l.journal
	l.mu.Unlock()
	if err != nil {
		return err
	}
	var group errgroup.Group // at the same time they cost little more than one
	group.Go(func() error { return l.store.syncData(file) })
	group.Go(func() error { return l.store.syncPath(l.dir()) })
	group.Go(func() error { return l.store.syncPath(l.store.allocations()) })
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
	return errors.Join(l.Sync(), l.shrink())
}

// shrink keeps a journal from growing with each attempt of a teardown. Without
// room for the shorter one it stays as it is.
func (l *Locked) shrink() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.compact(); !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	return nil
}

// Write records attachments, all of them or none, so that they outlast this process, but
// perhaps not a power cut: for what only matters as long as the machine runs. The
// allocation has to be on record.
func (l *Locked) Write(attachments ...Attachment) error {
	var c change
	switch len(attachments) {
	case 0:
		return nil
	case 1:
		c.Attachment = &attachments[0]
	default:
		c.Attachments = attachments
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return err
	}
	return l.add(c)
}

// WriteAllocation is Write for the allocation itself.
func (l *Locked) WriteAllocation(a Allocation) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return err
	}
	return l.add(change{Allocation: &a})
}

// Delete forgets an attachment; one that is not recorded is fine. Its previous routes
// become those of the allocation. It needs no room on the disk. A record that a power cut
// brings back is torn down again.
func (l *Locked) Delete(iface string) error {
	if err := validateInterface(iface); err != nil {
		return err
	}
	err := l.writeShort(change{Forgotten: iface})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
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
	return l.writeShort(c)
}

// writeShort appends a line for which there is room; see the function room.
func (l *Locked) writeShort(c change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return err
	}
	lines, err := encode([]change{c})
	if err != nil {
		return err
	}
	return l.write(lines)
}

// Clear forgets the allocation; one that is not recorded is fine.
func (l *Locked) Clear() error {
	l.mu.Lock()
	l.closeJournal()
	l.mu.Unlock()
	if err := l.store.remove(l.dir(), os.RemoveAll); err != nil {
		return err
	}
	return errors.Join(l.removeMark(pendingMarks), l.removeMark(portMarks))
}

// open opens the journal for appending. The error for none is fs.ErrNotExist.
func (l *Locked) open() error {
	if l.journal != nil {
		return nil
	}
	file, err := files.Open(l.path(), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("allocation %s: %w", l.id, err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close() // nothing was written
		return err
	}
	head, last := make([]byte, len(sizeKey)+sizeDigits), []byte{'\n'}
	if _, err = file.ReadAt(head, 0); err == nil || errors.Is(err, io.EOF) {
		_, err = file.ReadAt(last, max(0, info.Size()-1))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return errors.Join(err, file.Close())
	}
	l.journal, l.size, l.reserved, l.unended = file, info.Size(), 0, last[0] != '\n'
	l.sized, l.cut = sizeIn(head) > 0, sizeIn(head) > l.size
	if l.cut {
		l.acceptCut()
	}
	return nil
}

// acceptCut takes a journal of an earlier boot as it is: what is written from now on is of this one.
func (l *Locked) acceptCut() {
	if r, err := l.Load(); err == nil && len(r.Damaged) == 0 {
		l.cut = false
		l.seal()
	}
}

// seal writes the size of the journal into its first line.
func (l *Locked) seal() {
	if l.journal != nil && l.sized && !l.cut {
		_, _ = l.store.writeAt(l.journal, []byte(sizeText(l.size)), int64(len(sizeKey))) // without it, a loss of what was written now does not show
	}
}

func (l *Locked) closeJournal() {
	if l.journal != nil {
		_ = l.journal.Close() // each write and sync has told its errors
		l.journal = nil
	}
}

// create makes the journal, which has its first lines when it gets its name.
func (l *Locked) create(changes []change) error {
	if err := l.store.mkdir(l.dir(), os.Mkdir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	temporary, err := l.writeNew(changes)
	if err != nil {
		return err
	}
	if err := l.store.rename(temporary, l.path()); err != nil {
		l.closeJournal() // it has not the name: what is appended to it is lost
		return err
	}
	return nil
}

// writeNew writes lines to a new file, which from then on is the journal that is
// open: with its room reserved, so internal/files, which closes what it
// writes, cannot do it. Its name is fixed: the lock keeps others away, and what a killed process
// left is overwritten.
func (l *Locked) writeNew(changes []change) (path string, err error) {
	path = filepath.Join(l.dir(), "."+journalFile)
	file, err := l.store.create(path, os.O_RDWR|os.O_TRUNC)
	if err != nil {
		return "", fmt.Errorf("allocation %s: %w", l.id, err)
	}
	l.closeJournal()
	l.journal, l.size, l.reserved, l.unended, l.cut = file, 0, 0, false, false
	if err := l.add(changes...); err != nil {
		l.closeJournal()
		return "", errors.Join(err, l.store.remove(path, os.Remove))
	}
	return path, nil
}

// replace puts a new journal, which is on disk before it has the name, in the
// place of the one that there is.
func (l *Locked) replace(changes []change) error {
	temporary, err := l.writeNew(changes)
	if err == nil {
		err = l.store.syncData(l.journal)
	}
	if err == nil {
		err = l.store.rename(temporary, l.path())
	}
	if err != nil {
		l.closeJournal()
		return err
	}
	return l.store.syncPath(l.dir())
}

// chunk is how much is reserved at a time, besides the room.
const chunk = 24 << 10

// room is what is kept behind lines of a size for those of WriteDeleting and Delete: an
// attachment's own line is more than twice as long as these are for it.
func room(size int64) int64 { return max(4<<10, size/2) }

// add appends changes, if there is room for forgetting them besides.
func (l *Locked) add(changes ...change) error {
	lines, err := encode(changes)
	if err != nil {
		return fmt.Errorf("allocation %s: encode the record: %w", l.id, err)
	}
	if err := l.reserve(int64(len(lines))); err != nil {
		return fmt.Errorf("allocation %s: write %s: %w", l.id, l.path(), err)
	}
	return l.write(lines)
}

// reserve makes sure of room for n bytes. On a full disk the rest of an earlier chunk may
// be enough, so that the record of a teardown can say that DEL begins. Where a file system
// cannot reserve, a full disk is met when it is written to.
func (l *Locked) reserve(n int64) error {
	end := l.size + n
	end += room(end)
	if end <= l.reserved {
		return nil
	}
	for more := int64(chunk); ; {
		err := l.store.allocate(l.journal, l.size, end+more-l.size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case more > 0 && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)):
			more = 0
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil
		case err != nil:
			return err
		}
		l.reserved = end + more
		return nil
	}
}

// write appends lines in one call, after ending the last one that there is, and with an empty line, which is damage, for those
// that are lost. What fails half way is taken back.
func (l *Locked) write(lines []byte) error {
	if l.size == 0 {
		lines, l.sized = first(lines), true
	}
	for _, missing := range []bool{l.cut, l.unended} {
		if missing {
			lines = append([]byte("\n"), lines...)
		}
	}
	n, err := l.store.writeAt(l.journal, lines, l.size)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, l.store.truncate(l.journal, l.size))
			l.closeJournal() // the next to open it sees how it ends
		}
		return fmt.Errorf("allocation %s: %w", l.id, err)
	}
	l.size += int64(n)
	l.unended, l.cut = false, false
	return nil
}

// compactFrom is the size from which a journal is looked at; it is rewritten when
// it has several times its live content.
const compactFrom, compactRatio = 64 << 10, 4

// compact rewrites a journal that has grown. One with damage is left as it is.
func (l *Locked) compact() error {
	if l.size < compactFrom {
		return nil
	}
	record, err := l.Load()
	if err != nil || len(record.Damaged) > 0 {
		return err
	}
	live, err := encode(record.changes())
	if err != nil || int64(len(live))*compactRatio > l.size {
		return err
	}
	return l.replace(record.changes())
}
