// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/netns"
)

// journalFile holds an allocation's record; see the package documentation.
const journalFile = "journal"

var errTorn = errors.New("the end is missing")

// read returns what is on record in the directory of an allocation, which is no link. Whether a line without an end
// is damage, torn says.
func read(dir string, torn func(path string, data []byte) ([]byte, bool)) (Record, error) {
	id := filepath.Base(dir)
	r := Record{Allocation: Allocation{ID: id, Mode: ModeUnknown}}
	err := refuseLink(dir)
	if err == nil {
		err = r.readJournal(filepath.Join(dir, journalFile), torn)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("allocation %s %w", id, ErrNotFound)
	}
	if err != nil {
		return Record{}, err
	}
	return r, nil
}

// readJournal adds what the journal at path says. Its error is a *VersionError,
// fs.ErrNotExist, or that its directory is none: everything else is damage.
func (r *Record) readJournal(path string, torn func(path string, data []byte) ([]byte, bool)) error {
	data, err := files.ReadNoFollow(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return err
	}
	if err != nil {
		r.Damaged = append(r.Damaged, Damaged{path, 0, err})
		return nil
	}
	damaged := false
	if whole(data) < len(data) {
		data, damaged = torn(path, data)
	}
	lines := bytes.Split(data[:whole(data)], []byte("\n"))
	lines = lines[:len(lines)-1] // behind the last newline is nothing
	if err := r.apply(path, lines); err != nil {
		return err
	}
	if damaged || whole(data) == 0 || len(r.Damaged) == 0 && r.isCut(data) { // it is made with its first lines in it
		r.Damaged = append(r.Damaged, Damaged{path, len(lines) + 1, errTorn})
	}
	return nil
}

// isCut is whether a journal is shorter than it was. In an earlier boot a power cut may have done that, and nothing of the
// allocation lives.
func (r *Record) isCut(journal []byte) bool {
	if int64(len(journal)) >= sizeIn(journal) {
		return false
	}
	past, err := r.Allocation.IsOfEarlierBoot()
	return !past || err != nil
}

// apply applies lines: the last one of an allocation, and of each attachment,
// counts. The previous routes of a deleted attachment become those of the allocation,
// until its next line; those on its own interface end with it.
func (r *Record) apply(path string, lines [][]byte) error {
	attachments, deleted := map[string]Attachment{}, []Attachment{}
	named := false // the allocation itself, or damage that may have been it
	for i, text := range lines {
		c, err := decode(text)
		if of := c.allocation(); err == nil && of != "" && of != r.Allocation.ID {
			err = fmt.Errorf("is of allocation %q", of)
		}
		var version *VersionError
		switch {
		case errors.As(err, &version):
			version.Path = path
			return version
		case err != nil:
			named = true
			r.Damaged = append(r.Damaged, Damaged{path, i + 1, err})
		case c.Allocation != nil:
			named, deleted = true, nil
			r.Allocation = *c.Allocation
		case c.Forgotten != "":
			deleted = append(deleted, attachments[c.Forgotten])
			delete(attachments, c.Forgotten)
			r.endRoutes(c.Forgotten, attachments, deleted)
		default:
			for _, a := range c.attachments() {
				attachments[a.Interface] = a
			}
			for _, d := range c.Deleting {
				d.apply(attachments)
			}
		}
	}
	for _, a := range attachments {
		r.Attachments = append(r.Attachments, a)
	}
	slices.SortStableFunc(r.Attachments, ByIndex)
	slices.SortStableFunc(deleted, ByIndex)
	for _, a := range slices.Backward(deleted) { // the newest first, in whichever order DEL ended
		r.Allocation.PreviousRoutes = append(r.Allocation.PreviousRoutes, a.PreviousRoutes...)
	}
	if len(lines) > 0 && !named {
		r.Damaged = append(r.Damaged, Damaged{path, 0, errors.New("no line is of the allocation as a whole")})
	}
	return nil
}

func (d deletion) apply(attachments map[string]Attachment) {
	a, found := attachments[d.Interface]
	if !found {
		return
	}
	a.Phase, a.Attempts = Deleting, 0
	if d.Batch != (Batch{}) {
		a.Batch = d.Batch
	}
	attachments[d.Interface] = a
}

// endRoutes removes the previous routes on the interface of a deleted attachment: what has
// its name later is another interface.
func (r *Record) endRoutes(iface string, attachments map[string]Attachment, deleted []Attachment) {
	without := func(routes []netns.Route) []netns.Route {
		return slices.DeleteFunc(routes, func(route netns.Route) bool { return route.Interface == iface })
	}
	r.Allocation.PreviousRoutes = without(r.Allocation.PreviousRoutes)
	for name, a := range attachments {
		a.PreviousRoutes = without(a.PreviousRoutes)
		attachments[name] = a
	}
	for i := range deleted {
		deleted[i].PreviousRoutes = without(deleted[i].PreviousRoutes)
	}
}

// ByIndex orders attachments as they were set up.
func ByIndex(a, b Attachment) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Interface, b.Interface))
}

// whole returns the length of the lines that have an end. A power cut can leave
// zeros behind them.
func whole(data []byte) int {
	return bytes.LastIndexByte(bytes.TrimRight(data, "\x00"), '\n') + 1
}

// tornWithLock is for a reader that has the lock: Lock has removed what a killed
// process left, so a line without an end is damage.
func tornWithLock(_ string, data []byte) ([]byte, bool) { return data, true }

// tornWithout is for a reader without the lock: a line without an end is being
// written, or its writer was killed, while the lock file is there.
func tornWithout(lock string) func(string, []byte) ([]byte, bool) {
	return func(path string, data []byte) ([]byte, bool) {
		if _, err := os.Lstat(lock); err == nil {
			return data, false
		}
		again, err := files.ReadNoFollow(path)
		if err != nil { // removed meanwhile
			return data, false
		}
		return again, bytes.Equal(data, again) // else it was written meanwhile
	}
}
