// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/errdefs"
)

func TestList(t *testing.T) {
	s := open(t)
	for _, id := range []string{"b", "a", "c"} {
		must(t, lock(t, s, id).Begin(Allocation{ID: id, Mode: ModeSetup}, nil))
	}
	var got []string
	for r, err := range s.List(context.Background()) {
		must(t, err)
		got = append(got, r.Allocation.ID)
	}
	if !cmp.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %v", got)
	}
}

// TestResolve: an ID that is recorded wins over those that it begins, and a prefix of
// one alone is that one.
func TestResolve(t *testing.T) {
	s := open(t)
	for _, id := range []string{"web", "web-1", "web-10", "db-1"} {
		must(t, lock(t, s, id).Begin(Allocation{ID: id, Mode: ModeSetup}, nil))
	}
	for id, want := range map[string]string{"web": "web", "web-1": "web-1", "web-10": "web-10", "d": "db-1"} {
		if got, err := s.Resolve(id); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", id, got, err, want)
		}
	}
	var ambiguous *AmbiguousIDError
	if _, err := s.Resolve("we"); !errors.As(err, &ambiguous) || !strings.Contains(err.Error(), "\nweb\nweb-1\nweb-10") {
		t.Errorf("three: %v", err)
	}
	if _, err := s.Resolve("x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("none: %v", err)
	}
	if _, err := s.Resolve(""); errdefs.Of(err) != errdefs.Refused {
		t.Errorf("empty: %v", err)
	}
}

// TestDirectoryOfOthers: a user who can write records has programs executed.
func TestDirectoryOfOthers(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"open to all":       func(dir string) error { return os.Chmod(dir, 0o777) },
		"open to a group":   func(dir string) error { return os.Chmod(filepath.Join(dir, "allocations"), 0o770) },
		"locks open to all": func(dir string) error { return os.Chmod(filepath.Join(dir, "locks"), 0o777) },
		"a link for a folder": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "locks")), os.Symlink(t.TempDir(), filepath.Join(dir, "locks")))
		},
	} {
		s := open(t)
		must(t, spoil(s.dir))
		if _, err := Open(s.dir); err == nil || !strings.Contains(err.Error(), s.dir) {
			t.Errorf("%s: %v, want an error that names the path", name, err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(open(t).dir, link))
	if _, err := Open(link); err != nil {
		t.Errorf("the operator's own link: %v", err)
	}
}

// TestLayout: Open makes every directory, so that the host is the same after the
// first use of a lock or a mark as before.
func TestLayout(t *testing.T) {
	s := open(t)
	list := func() (names []string) {
		entries, err := os.ReadDir(s.dir)
		must(t, err)
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	before := list()
	for _, lock := range []func() (func(), error){
		func() (func(), error) { return s.Bridges().Lock(t.Context()) },
		func() (func(), error) { return s.LockPorts(t.Context(), true) },
		s.LockRetries,
	} {
		unlock, err := lock()
		must(t, err)
		unlock()
	}
	l := lock(t, s, "a")
	must(t, l.addMark(portMarks))
	must(t, l.addMark(pendingMarks))
	l.Unlock()
	if now := list(); !slices.Equal(before, now) {
		t.Errorf("before %v, then %v", before, now)
	}
}

func TestOpenWhereItCannot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want an error that names the path", err)
	}
}

// TestListGoesOn: one record of a newer format hides no other.
func TestListGoesOn(t *testing.T) {
	s := open(t)
	for _, id := range []string{"a", "b", "c"} {
		must(t, lock(t, s, id).Begin(Allocation{ID: id, Mode: ModeSetup}, nil))
	}
	must(t, os.WriteFile(filepath.Join(s.allocationDir("b"), journalFile), newer(), 0o600))
	var got, unreadable []string
	for r, err := range s.List(context.Background()) {
		var u *UnreadableError
		if errors.As(err, &u) {
			unreadable = append(unreadable, u.ID)
			continue
		}
		must(t, err)
		got = append(got, r.Allocation.ID)
	}
	if !cmp.Equal(got, []string{"a", "c"}) || !cmp.Equal(unreadable, []string{"b"}) {
		t.Errorf("got %v, unreadable %v", got, unreadable)
	}
}

// TestListEnds: with the context, with its caller, and where nothing can be listed.
func TestListEnds(t *testing.T) {
	s := open(t)
	for _, id := range []string{"a", "b"} {
		must(t, lock(t, s, id).Begin(Allocation{ID: id, Mode: ModeSetup}, nil))
	}
	gaveUp := errors.New("gave up")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var got []error
	for _, err := range s.List(ctx) {
		stop(gaveUp)
		got = append(got, err)
	}
	if len(got) != 2 || got[0] != nil || !errors.Is(got[1], gaveUp) {
		t.Errorf("got %v, want one record and the context's cause", got)
	}
	n := 0
	for range s.List(t.Context()) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d records after break", n)
	}
	must(t, os.RemoveAll(s.allocations()))
	for _, err := range s.List(t.Context()) {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "list allocations") {
			t.Errorf("got %v", err)
		}
	}
}

// TestGoneSinceListed: a record that is torn down during a list is no error.
func TestGoneSinceListed(t *testing.T) {
	s := open(t)
	for range s.list(t.Context(), func() ([]string, error) { return []string{"gone"}, nil }) {
		t.Error("something is listed")
	}
}

// TestOpenReadOnly makes nothing, and reads what there is.
func TestOpenReadOnly(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	s, err := OpenReadOnly(missing)
	must(t, err)
	if ids, err := s.IDs(); len(ids) > 0 || err != nil {
		t.Errorf("no directory: %v, %v", ids, err)
	}
	if _, err := s.Read("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := os.Lstat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
	written := open(t)
	must(t, lock(t, written, "a").Begin(Allocation{ID: "a", Mode: ModeSetup}, nil))
	s, err = OpenReadOnly(written.dir)
	must(t, err)
	if r, err := s.Read("a"); r.Allocation.ID != "a" || err != nil {
		t.Errorf("read %v, %v", r.Allocation, err)
	}
	if l, err := s.Lock(t.Context(), "b"); err == nil {
		l.Unlock()
		t.Error("a lock was made")
	}
	must(t, os.Chmod(filepath.Join(written.dir, "allocations"), 0o777))
	if _, err := OpenReadOnly(written.dir); err == nil {
		t.Error("a directory of others is trusted")
	}
}
