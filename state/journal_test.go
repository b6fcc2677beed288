// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"golang.org/x/sys/unix"
)

// TestDamage: a damaged line is reported by every reader and stays where it is;
// the others count.
func TestDamage(t *testing.T) {
	for name, how := range map[string]func([]byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"truncated":        func(b []byte) []byte { return b[:len(b)/2] },
		"garbage":          func([]byte) []byte { return []byte("garbage") },
		"zeros":            func(b []byte) []byte { return make([]byte, len(b)) },
		"a flipped bit":    func(b []byte) []byte { b[len(b)-10] ^= 1; return b },
		"of no interface":  func(b []byte) []byte { return reseal(t, b, `"net1"`, `"a/b"`) },
		"checksum missing": func([]byte) []byte { return []byte(`{"version":3,"record":{}}`) },
		"says nothing":     func(b []byte) []byte { return reseal(t, b, "attachment", "unheard-of") },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			l := lock(t, s, "a")
			must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n"}, []Attachment{attachment("eth0", ""), attachment("net1", "")}))
			damaged := damage(t, l, onLine(3, how))
			for range 2 {
				for who, read := range readers(s, l) {
					r, err := read()
					if err != nil || len(r.Attachments) != 1 || r.Allocation.Netns != "n" || len(r.Damaged) != 1 || r.Damaged[0].Line != 3 {
						t.Errorf("%s: got %+v, %v", who, r, err)
					}
				}
			}
			if kept, err := os.ReadFile(l.journal.path()); err != nil || !bytes.Equal(kept, damaged) {
				t.Errorf("the file did not stay as it was: %v", err)
			}
		})
	}
}

// TestDamagedAllocation: the earlier line counts, and without one the damage is
// all that is known.
func TestDamagedAllocation(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n"}, nil))
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n", NetnsID: "1"}, []Attachment{attachment("eth0", "")}))
	spoil := func([]byte) []byte { return []byte("x") }
	damage(t, l, onLine(2, spoil))
	if r, err := l.Load(); err != nil || r.Allocation.Netns != "n" || r.Allocation.NetnsID != "" || len(r.Damaged) != 1 || len(r.Attachments) != 1 {
		t.Errorf("the second line is damaged: %+v, %v", r, err)
	}
	damage(t, l, onLine(1, spoil))
	if r, err := l.Load(); err != nil || !cmp.Equal(r.Allocation, Allocation{ID: "a", Mode: ModeUnknown}) || len(r.Damaged) != 2 || len(r.Attachments) != 1 {
		t.Errorf("both are damaged: %+v, %v", r, err)
	}
	damage(t, l, func(b []byte) []byte { return bytes.Join(bytes.SplitAfter(b, []byte("\n"))[2:], nil) })
	if r, err := l.Load(); err != nil || len(r.Damaged) != 1 || len(r.Attachments) != 1 {
		t.Errorf("both are gone: %+v, %v", r, err)
	}
}

// TestLostEnd: a line without an end is ignored, and removed, when its writer was
// killed; else the end is lost.
func TestLostEnd(t *testing.T) {
	for name, tail := range map[string]string{"half a line": `{"version":3,"sha`, "zeros": "\x00\x00", "both": "{\x00"} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			l := lock(t, s, "a")
			must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{attachment("eth0", "")}))
			damage(t, l, func(b []byte) []byte { return append(b, tail...) })
			if r, err := s.Read("a"); err != nil || len(r.Damaged) != 0 {
				t.Errorf("while it may be being written: %+v, %v", r, err)
			}
			l.Unlock()
			if r, err := s.Read("a"); err != nil || len(r.Damaged) != 1 {
				t.Errorf("with no writer: %+v, %v", r, err)
			}
			l = lock(t, s, "a")
			if r, err := l.Load(); err != nil || len(r.Damaged) != 1 {
				t.Errorf("after no writer: %+v, %v", r, err)
			}
			l.Unlock()
			must(t, os.WriteFile(s.lockPath("a"), nil, 0o600)) // as after kill -9
			l = lock(t, s, "a")
			must(t, l.Write(attachment("net1", "")))
			if r, err := l.Load(); err != nil || len(r.Damaged) != 0 || len(r.Attachments) != 2 {
				t.Errorf("its writer was killed: %+v, %v", r, err)
			}
		})
	}
}

// TestWrittenMeanwhile: a reader without the lock whose line lacks its end, because
// it read before the writer was done, sees no damage after the writer's unlock.
func TestWrittenMeanwhile(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{attachment("eth0", "")}))
	whole, err := os.ReadFile(l.journal.path())
	must(t, err)
	l.Unlock()
	if data, damaged := tornWithout(s.lockPath("a"))(l.journal.path(), whole[:len(whole)-5]); damaged || !bytes.Equal(data, whole) {
		t.Errorf("damaged: %t, read %q", damaged, data)
	}
}

func TestNewerFormatIsLeftAlone(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, nil))
	damage(t, l, func([]byte) []byte { return newer() })
	var refused *VersionError
	if _, err := l.Load(); !errors.As(err, &refused) || refused.Version != 99 || refused.Path != l.journal.path() {
		t.Errorf("got %v, want *VersionError", err)
	}
	if _, err := os.Stat(l.journal.path()); err != nil {
		t.Errorf("the file is gone: %v", err)
	}
}

func TestSymlinksAreNotFollowed(t *testing.T) {
	s := open(t)
	target := filepath.Join(t.TempDir(), "target")
	must(t, os.WriteFile(target, []byte("precious"), 0o600))
	l := lock(t, s, "a")
	must(t, os.Mkdir(l.journal.dir, 0o700))
	must(t, os.Symlink(target, filepath.Join(l.journal.dir, "."+journalFile)))
	if err := l.Begin(Allocation{ID: "a", Mode: ModeSetup}, nil); err == nil {
		t.Error("written through a symlink")
	}
	must(t, os.Symlink(target, s.lockPath("b")))
	if _, err := s.Lock(context.Background(), "b"); err == nil {
		t.Error("locked through a symlink")
	}
	for name, leave := range map[string]func() error{
		"link": func() error { return os.Symlink(target, l.journal.path()) },
		"pipe": func() error { return unix.Mkfifo(l.journal.path(), 0o600) },
	} {
		must(t, leave())
		if r, err := s.Read("a"); err != nil || len(r.Damaged) != 1 || len(r.Attachments) != 0 {
			t.Errorf("a %s is read as %+v, %v", name, r, err)
		}
		if err := l.Write(attachment("net1", "")); err == nil {
			t.Errorf("a %s is written to", name)
		}
		must(t, os.Remove(l.journal.path()))
	}
	must(t, l.Clear())
	if data, err := os.ReadFile(target); err != nil || string(data) != "precious" {
		t.Errorf("the target has %q, %v", data, err)
	}
}
