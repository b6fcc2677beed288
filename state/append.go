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
	"sync"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// journal is the journal of an allocation as the holder of its lock writes it.
type journal struct {
	disk *disk
	// dir is the allocation's, whose name is the allocation's ID.
	dir string

	mu sync.Mutex // held while it is written
	// file is open for writing, once it has been written to.
	file *os.File
	// size is where its lines end, reserved where its room does.
	size, reserved int64
	// unended is whether the last line lacks its newline, which comes before the
	// next one.
	unended bool
	// sized is whether its first line has its size, and cut whether it is shorter than that.
	sized, cut bool
}

func (j *journal) path() string { return filepath.Join(j.dir, journalFile) }

func (j *journal) id() string { return filepath.Base(j.dir) }

// begin adds changes, also to a journal that does not exist yet.
func (j *journal) begin(changes []change) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.open()
	if errors.Is(err, fs.ErrNotExist) {
		return j.create(changes)
	}
	if err == nil {
		err = j.compact()
	}
	if err != nil {
		return err
	}
	return j.add(changes...)
}

// record adds a change.
func (j *journal) record(c change) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(); err != nil {
		return err
	}
	return j.add(c)
}

// recordShort adds a change for which there is room; see the function room.
func (j *journal) recordShort(c change) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(); err != nil {
		return err
	}
	lines, err := encode([]change{c})
	if err != nil {
		return err
	}
	return j.write(lines)
}

// shrink keeps a journal from growing with each attempt of a teardown. Without
// room for the shorter one it stays as it is.
func (j *journal) shrink() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.compact(); !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	return nil
}

// opened returns the file.
func (j *journal) opened() (*os.File, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.open()
	return j.file, err
}

// open opens the journal for appending. The error for none is fs.ErrNotExist.
func (j *journal) open() error {
	if j.file != nil {
		return nil
	}
	file, err := files.Open(j.path(), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("allocation %s: %w", j.id(), err)
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
	j.file, j.size, j.reserved, j.unended = file, info.Size(), 0, last[0] != '\n'
	j.sized, j.cut = sizeIn(head) > 0, sizeIn(head) > j.size
	if j.cut { // a journal of an earlier boot is taken as it is: what is written from now on is of this one
		if r, err := read(j.dir, tornWithLock); err == nil && len(r.Damaged) == 0 {
			j.cut = false
			j.seal()
		}
	}
	return nil
}

// seal writes the size of the journal into its first line.
func (j *journal) seal() {
	if j.file != nil && j.sized && !j.cut {
		_, _ = j.disk.writeAt(j.file, []byte(sizeText(j.size)), int64(len(sizeKey))) // without it, a loss of what was written now does not show
	}
}

func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Close() // each write and sync has told its errors
		j.file = nil
	}
}

// create makes the journal, which has its first lines when it gets its name.
func (j *journal) create(changes []change) error {
	if err := j.disk.mkdir(j.dir, os.Mkdir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	temporary, err := j.writeNew(changes)
	if err != nil {
		return err
	}
	if err := j.disk.rename(temporary, j.path()); err != nil {
		j.close() // it has not the name: what is appended to it is lost
		return err
	}
	return nil
}

// writeNew writes lines to a new file, which from then on is the journal that is
// open: with its room reserved, so internal/files, which closes what it
// writes, cannot do it. Its name is fixed: the lock keeps others away, and what a killed process
// left is overwritten.
func (j *journal) writeNew(changes []change) (path string, err error) {
	path = filepath.Join(j.dir, "."+journalFile)
	file, err := j.disk.create(path, os.O_RDWR|os.O_TRUNC)
	if err != nil {
		return "", fmt.Errorf("allocation %s: %w", j.id(), err)
	}
	j.close()
	j.file, j.size, j.reserved, j.unended, j.cut = file, 0, 0, false, false
	if err := j.add(changes...); err != nil {
		j.close()
		return "", errors.Join(err, j.disk.remove(path, os.Remove))
	}
	return path, nil
}

// replace puts a new journal, which is on disk before it has the name, in the
// place of the one that there is.
func (j *journal) replace(changes []change) error {
	temporary, err := j.writeNew(changes)
	if err == nil {
		err = j.disk.syncData(j.file)
	}
	if err == nil {
		err = j.disk.rename(temporary, j.path())
	}
	if err != nil {
		j.close()
		return err
	}
	return j.disk.syncPath(j.dir)
}

// chunk is how much is reserved at a time, besides the room.
const chunk = 24 << 10

// room is what is kept behind lines of a size for those of WriteDeleting and Delete: an
// attachment's own line is more than twice as long as these are for it.
func room(size int64) int64 { return max(4<<10, size/2) }

// add appends changes, if there is room for forgetting them besides.
func (j *journal) add(changes ...change) error {
	lines, err := encode(changes)
	if err != nil {
		return fmt.Errorf("allocation %s: encode the record: %w", j.id(), err)
	}
	if err := j.reserve(int64(len(lines))); err != nil {
		return fmt.Errorf("allocation %s: write %s: %w", j.id(), j.path(), err)
	}
	return j.write(lines)
}

// reserve makes sure of room for n bytes. On a full disk the rest of an earlier chunk may
// be enough, so that the record of a teardown can say that DEL begins. Where a file system
// cannot reserve, a full disk is met when it is written to.
func (j *journal) reserve(n int64) error {
	end := j.size + n
	end += room(end)
	if end <= j.reserved {
		return nil
	}
	for more := int64(chunk); ; {
		err := j.disk.allocate(j.file, j.size, end+more-j.size)
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
		j.reserved = end + more
		return nil
	}
}

// write appends lines in one call, after ending the last one that there is, and with an empty line, which is damage, for those
// that are lost. What fails half way is taken back.
func (j *journal) write(lines []byte) error {
	if j.size == 0 {
		lines, j.sized = first(lines), true
	}
	for _, missing := range []bool{j.cut, j.unended} {
		if missing {
			lines = append([]byte("\n"), lines...)
		}
	}
	n, err := j.disk.writeAt(j.file, lines, j.size)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, j.disk.truncate(j.file, j.size))
			j.close() // the next to open it sees how it ends
		}
		return fmt.Errorf("allocation %s: %w", j.id(), err)
	}
	j.size += int64(n)
	j.unended, j.cut = false, false
	return nil
}

// compactFrom is the size from which a journal is looked at; it is rewritten when
// it has several times its live content.
const compactFrom, compactRatio = 64 << 10, 4

// compact rewrites a journal that has grown. One with damage is left as it is.
func (j *journal) compact() error {
	if j.size < compactFrom {
		return nil
	}
	record, err := read(j.dir, tornWithLock)
	if err != nil || len(record.Damaged) > 0 {
		return err
	}
	live, err := encode(record.changes())
	if err != nil || int64(len(live))*compactRatio > j.size {
		return err
	}
	return j.replace(record.changes())
}
