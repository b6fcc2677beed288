// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPendingMarks: the list has what is marked, in order, and nothing that is no
// allocation's.
func TestPendingMarks(t *testing.T) {
	s := open(t)
	for _, id := range []string{"b", "a", "c"} {
		l := lock(t, s, id)
		begun(t, l)
		must(t, l.WriteDurable(pending("eth0")))
		must(t, l.AddPending()) // again
	}
	must(t, os.WriteFile(filepath.Join(s.dir, pendingMarks, ".hidden"), nil, 0o600))
	if got, err := s.Pending(); err != nil || !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %v, %v", got, err)
	}
	l, err := s.Lock(t.Context(), "d")
	must(t, err)
	must(t, l.AddPending())
	must(t, l.ClearPending())
	must(t, l.ClearPending())
	l.Unlock()
	if got, err := s.Pending(); err != nil || slices.Contains(got, "d") {
		t.Errorf("got %v, %v", got, err)
	}
	must(t, os.RemoveAll(filepath.Join(s.dir, pendingMarks)))
	if got, err := s.Pending(); err != nil || len(got) > 0 {
		t.Errorf("without the directory: %v, %v", got, err)
	}
}

// TestMarkFirst: an attachment that cannot be marked is not recorded as pending, nor
// a port as chosen.
func TestMarkFirst(t *testing.T) {
	for name, call := range map[string]func(*Locked) error{
		"pending": func(l *Locked) error { return l.WriteDurable(pending("eth0")) },
		"chosen": func(l *Locked) error {
			return l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{choosing("eth0")})
		},
	} {
		s := open(t)
		l := lock(t, s, "a")
		begun(t, l)
		before := describe(l.Load())
		s.Intercept((&failing{"create", unix.ENOSPC}).intercept)
		if err := call(l); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
		if after := describe(l.Load()); after != before {
			t.Errorf("%s: recorded is %s", name, after)
		}
	}
}

func TestUnrecordedMarks(t *testing.T) {
	s := open(t)
	recorded := lock(t, s, "recorded")
	must(t, recorded.Begin(Allocation{ID: "recorded", Mode: ModeSetup}, []Attachment{choosing("eth0")}))
	must(t, recorded.AddPending())
	for _, marks := range []string{pendingMarks, portMarks} {
		must(t, os.WriteFile(filepath.Join(s.dir, marks, "lost-"+marks), nil, 0o600))
	}
	got, err := s.markedUnrecorded()
	if want := []string{"lost-pending", "lost-ports"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, dir := range []string{portMarks, pendingMarks, "allocations"} {
		must(t, os.RemoveAll(filepath.Join(s.dir, dir)))
		must(t, os.WriteFile(filepath.Join(s.dir, dir), nil, 0o600)) // no directory any more
		if _, err := s.markedUnrecorded(); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s cannot be listed: %v", dir, err)
		}
	}
}
