// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
)

// TestUnreadable: a directory that cannot be read is none of an unknown allocation, and a journal
// that cannot be read is damage.
func TestUnreadable(t *testing.T) {
	s := open(t)
	must(t, os.WriteFile(s.allocationDir("a"), nil, 0o600))
	if _, err := s.Read("a"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a file in place of the directory: %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(s.allocationDir("b"), journalFile), 0o700))
	if r, err := s.Read("b"); err != nil || len(r.Damaged) != 1 || !errors.Is(r.Damaged[0].Err, unix.EISDIR) && !strings.Contains(r.Damaged[0].Err.Error(), "regular") {
		t.Errorf("a directory in place of the journal: %+v, %v", r, err)
	}
}

// TestJournalOfAnother: the lines of another allocation are damage, those of its attachments, too.
func TestJournalOfAnother(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	first, second := attachment("eth0", ""), attachment("net1", "")
	first.ContainerID, second.ContainerID = "a", ContainerID("a", "net1")
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n"}, []Attachment{first}))
	must(t, l.Write(second))
	if r, err := s.Read("a"); err != nil || len(r.Damaged) != 0 || len(r.Attachments) != 2 {
		t.Errorf("its own: %+v, %v", r, err)
	}
	must(t, os.CopyFS(s.allocationDir("b"), os.DirFS(l.journal.dir)))
	if r, err := s.Read("b"); err != nil || len(r.Damaged) != 3 || len(r.Attachments) != 0 || r.Allocation.ID != "b" || r.Allocation.Netns != "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLinkedDirectory: a link to the directory of another allocation is no record, and nothing is written there.
func TestLinkedDirectory(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n"}, []Attachment{attachment("eth0", "")}))
	l.Unlock()
	must(t, os.Symlink("a", s.allocationDir("b")))
	before, err := os.ReadFile(filepath.Join(s.allocationDir("a"), journalFile))
	must(t, err)
	_, errRead := s.Read("b")
	_, errLock := s.Lock(t.Context(), "b")
	for what, err := range map[string]error{"read": errRead, "lock": errLock} {
		if err == nil || !strings.Contains(err.Error(), s.allocationDir("b")+" is a link, want a directory") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after, err := os.ReadFile(filepath.Join(s.allocationDir("a"), journalFile)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the other record is\n%s, %v", after, err)
	}
}

// TestSyncFails: each part that does not reach the disk is an error.
func TestSyncFails(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	begun(t, l)
	for _, failing := range []string{filepath.Join(l.journal.dir, "."+journalFile), l.journal.dir, s.allocations()} {
		s.Intercept(func(op, path string, change func() error) error {
			if op == "sync" && path == failing {
				return unix.EIO
			}
			return change()
		})
		if err := l.Sync(); !errors.Is(err, unix.EIO) {
			t.Errorf("%s: %v", failing, err)
		}
	}
}

// TestMarks: a mark that cannot be removed is an error, and what is attached has none.
func TestMarks(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	begun(t, l)
	must(t, l.WriteDurable(attachment("eth0", "")))
	if marked, err := s.Pending(); err != nil || len(marked) != 0 {
		t.Errorf("%v, %v", marked, err)
	}
	must(t, l.AddPending())
	s.Intercept((&failing{"remove", unix.EROFS}).intercept)
	if err := l.ClearPending(); !errors.Is(err, unix.EROFS) {
		t.Errorf("%v", err)
	}
}

// TestRoutesOfSeveral: the routes on an interface end with it, in all attachments that were removed before.
func TestRoutesOfSeveral(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	on := func(iface string, previous ...string) Attachment {
		a := attachment(iface, "")
		for _, name := range previous {
			a.PreviousRoutes = append(a.PreviousRoutes, netns.Route{Interface: name, Gateway: netip.MustParseAddr("10.0.0.1")})
		}
		return a
	}
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{on("net1", "eth0", "net3"), on("net2", "net3"), on("net3"), on("net4")}))
	for _, iface := range []string{"net1", "net2", "net3"} {
		must(t, l.Delete(iface))
	}
	r, err := l.Load()
	if err != nil || len(r.Allocation.PreviousRoutes) != 1 || !slices.ContainsFunc(r.Allocation.PreviousRoutes, func(r netns.Route) bool { return r.Interface == "eth0" }) {
		t.Errorf("%+v, %v", r.Allocation.PreviousRoutes, err)
	}
}

// TestWriteDeleting: none is nothing to write, a batch on record stays, and what cannot be written is an error.
func TestWriteDeleting(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	first := attachment("eth0", "")
	first.Batch = Batch{Kind: BatchSetup}
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{first}))
	before, err := os.ReadFile(l.journal.path())
	must(t, err)
	must(t, l.WriteDeleting())
	if after, err := os.ReadFile(l.journal.path()); err != nil || string(after) != string(before) {
		t.Errorf("%v, written %s", err, after)
	}
	changed := first
	changed.Batch = Batch{Kind: BatchExtend, ID: "x"}
	must(t, l.WriteDeleting(changed))
	if r, err := l.Load(); err != nil || r.Attachments[0].Phase != Deleting || r.Attachments[0].Batch != first.Batch {
		t.Errorf("%+v, %v", r.Attachments, err)
	}
	s.Intercept((&failing{"write", unix.EIO}).intercept)
	if err := l.WriteDeleting(first); !errors.Is(err, unix.EIO) {
		t.Errorf("%v", err)
	}
}
