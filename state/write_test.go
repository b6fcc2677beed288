// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCompaction: what is attached and detached again and again, or never torn
// down, does not fill the disk, and damage is kept.
func TestCompaction(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	a := Allocation{ID: "a", Mode: ModeSetup, Netns: "n"}
	must(t, l.Begin(a, []Attachment{attachment("eth0", "stays")}))
	text := strings.Repeat("x", 1000)
	size := func() int64 {
		info, err := os.Stat(l.journal.path())
		must(t, err)
		return info.Size()
	}
	churn := func() int64 {
		for range 150 {
			must(t, l.Begin(a, []Attachment{attachment("net1", text)}))
			must(t, l.Delete("net1"))
		}
		return size()
	}
	if size := churn(); size > 2*compactFrom {
		t.Errorf("%d bytes", size)
	}
	if r, err := s.Read("a"); err != nil || len(r.Attachments) != 1 || !cmp.Equal(r.Allocation, a) {
		t.Errorf("got %+v, %v", r, err)
	}
	pending := attachment("eth0", "stays")
	pending.Phase, pending.Error = Pending, strings.Repeat(text, 10)
	for range 30 { // attempts of a teardown that fails
		must(t, l.WriteDurable(pending))
	}
	if size := size(); size > 2*compactFrom {
		t.Errorf("%d bytes after failed attempts", size)
	}
	damage(t, l, onLine(1, func([]byte) []byte { return nil }))
	if size := churn(); size < 2*compactFrom {
		t.Errorf("%d bytes, but what is damaged is to be left", size)
	}
}

// TestReplacedWhenSynced: a journal that is written anew is on disk before it has
// the name.
func TestReplacedWhenSynced(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, nil))
	synced := 0
	s.Intercept(func(op, path string, change func() error) error {
		if op != "sync" || path == l.journal.dir {
			return change()
		}
		synced++
		written, err := os.Stat(path)
		must(t, err)
		named, err := os.Stat(l.journal.path())
		must(t, err)
		if os.SameFile(written, named) {
			t.Error("it has the name already")
		}
		return change()
	})
	must(t, l.Repair(Record{Allocation: Allocation{ID: "a", Mode: ModeSetup}}))
	if synced != 1 {
		t.Errorf("synced %d times", synced)
	}
}

// TestSynced: what is said to outlast a power cut is on disk: the lines of the journal, its name and that of its
// directory.
func TestSynced(t *testing.T) {
	a := Allocation{ID: "a", Mode: ModeSetup}
	pending := attachment("eth0", strings.Repeat("x", compactFrom))
	pending.Phase = Pending
	begin := func(l *Locked) error { return errors.Join(l.Begin(a, []Attachment{attachment("eth0", "")}), l.Sync()) }
	for name, calls := range map[string][]func(l *Locked) error{
		"a new one":      {begin},
		"one more":       {begin, begin},
		"one line":       {begin, func(l *Locked) error { return l.WriteDurable(pending) }},
		"a shorter one":  {begin, func(l *Locked) error { return l.WriteDurable(pending) }, func(l *Locked) error { return l.WriteDurable(attachment("eth0", "")) }},
		"a repaired one": {begin, func(l *Locked) error { return l.Repair(Record{Allocation: a}) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			l := lock(t, s, "a")
			durable := l.journal.path() // the data of the journal, whatever its name is
			var mu sync.Mutex           // Sync syncs several directories in parallel
			dirty := map[string]bool{}
			s.Intercept(func(op, path string, change func() error) error {
				_, err := os.Lstat(path)
				isNew := errors.Is(err, fs.ErrNotExist)
				if err := change(); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				changed := path
				if strings.HasSuffix(path, journalFile) {
					changed = durable
				}
				switch {
				case op == "sync":
					delete(dirty, changed)
				case op == "write" || op == "truncate":
					dirty[changed] = true
				case isNew && op != "remove" || op == "rename" || op == "link":
					dirty[filepath.Dir(path)] = true
				}
				return nil
			})
			for _, call := range calls {
				must(t, call(l))
				for _, path := range []string{durable, l.journal.dir, s.allocations()} {
					if dirty[path] {
						t.Errorf("%s is not synced", path)
					}
				}
			}
		})
	}
}

// TestRoom: however many attachments there are, and however short their lines, the
// room that is kept on a full disk is enough to forget them all.
func TestRoom(t *testing.T) {
	for _, n := range []int{1, 30, 1000} {
		var added, forgotten []change
		for i := range n {
			name := fmt.Sprintf("interface-%05d", i)
			added = append(added, change{Attachment: &Attachment{Batch: Batch{Kind: BatchSetup}, Interface: name}})
			forgotten = append(forgotten, change{Forgotten: name})
		}
		lines, err := encode(added)
		must(t, err)
		need, err := encode(forgotten)
		must(t, err)
		if got := room(int64(len(lines))); got < int64(len(need)) {
			t.Errorf("%d attachments: room for %d bytes, want %d", n, got, len(need))
		}
	}
}

// BenchmarkBegin shows that the number of other allocations does not matter.
func BenchmarkBegin(b *testing.B) {
	for _, others := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			s := open(b)
			for i := range others {
				dir := s.allocationDir(fmt.Sprintf("other-%d", i))
				must(b, os.Mkdir(dir, 0o700))
				must(b, os.WriteFile(filepath.Join(dir, journalFile), nil, 0o600))
			}
			for b.Loop() {
				l, err := s.Lock(context.Background(), "a")
				must(b, err)
				must(b, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{attachment("eth0", ""), attachment("net1", "")}))
				must(b, l.Sync())
				must(b, l.Clear())
				l.Unlock()
			}
		})
	}
}
