// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
		info, err := os.Stat(l.path())
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
		if op != "sync" || path == l.dir() {
			return change()
		}
		synced++
		written, err := os.Stat(path)
		must(t, err)
		named, err := os.Stat(l.path())
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
