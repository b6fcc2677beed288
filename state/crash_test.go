// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/exhaustive"
)

var errKilled = errors.New("killed")

// kill lets a number of changes be made, then the process is dead: nothing is
// changed any more. How says what of the last change is still made.
type kill struct {
	mu    sync.Mutex
	after int
	how   string
	dead  bool
}

var killings = []string{"before the change", "after the change", "within the write"}

func (k *kill) intercept(op, path string, change func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return errKilled
	}
	k.after--
	if k.after >= 0 {
		return withoutSync(op, path, change)
	}
	k.dead = true
	if k.how == "before the change" {
		return errKilled
	}
	before := size(path)
	err := withoutSync(op, path, change)
	if k.how == "within the write" && op == "write" {
		half := before + (size(path)-before)/2
		err = errors.Join(err, os.Truncate(named(path), half))
	}
	return errors.Join(err, errKilled)
}

// withoutSync is for tests that have no power cut.
func withoutSync(op, _ string, change func() error) error {
	if op == "sync" {
		return nil
	}
	return change()
}

// named is where a journal is that had the name path when it was made.
func named(path string) string {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return filepath.Join(filepath.Dir(path), journalFile)
	}
	return path
}

func size(path string) int64 {
	info, err := os.Stat(named(path))
	if err != nil {
		return 0
	}
	return info.Size()
}

// written is one call that changes a record, and what it finds.
type written struct {
	find func(t *testing.T, l *Locked)
	call func(l *Locked) error
}

func choosing(iface string) Attachment {
	a := attachment(iface, "")
	a.ChosenPorts = []byte("[]")
	return a
}

func pending(iface string) Attachment {
	a := attachment(iface, "")
	a.Phase, a.Error = Pending, "DEL failed"
	return a
}

var writtenCalls = map[string]written{
	"the first Begin": {
		func(*testing.T, *Locked) {},
		func(l *Locked) error {
			return l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n"}, []Attachment{attachment("eth0", ""), attachment("net1", "")})
		},
	},
	"a Begin with a chosen port": {
		func(*testing.T, *Locked) {},
		func(l *Locked) error {
			return l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{choosing("net1")})
		},
	},
	"another Begin": {
		begun, func(l *Locked) error {
			return l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n", NetnsID: "1"}, []Attachment{attachment("net2", "")})
		},
	},
	"a Begin that compacts": {
		grown, func(l *Locked) error {
			return l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "m"}, []Attachment{attachment("net2", "")})
		},
	},
	"a Write":           {begun, func(l *Locked) error { return l.Write(attachment("eth0", "again")) }},
	"a Write of two":    {begun, func(l *Locked) error { return l.Write(attachment("eth0", "again"), attachment("net1", "new")) }},
	"a Write, leased":   {begun, func(l *Locked) error { return l.Write(leased("eth0")) }},
	"a Write, unended":  {unended, func(l *Locked) error { return l.Write(attachment("eth0", "again")) }},
	"a WriteDurable":    {begun, func(l *Locked) error { return l.WriteDurable(pending("eth0")) }},
	"one that compacts": {grown, func(l *Locked) error { return l.WriteDurable(pending("eth0")) }},
	"a Delete":          {begun, func(l *Locked) error { return l.Delete("net1") }},
	"a Sync":            {begun, func(l *Locked) error { return l.Sync() }},
	"a Clear": {
		func(t *testing.T, l *Locked) {
			must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{choosing("eth0")}))
			must(t, l.WriteDurable(pending("net1")))
			must(t, l.Write(leased("net1")))
		},
		func(l *Locked) error { return l.Clear() },
	},
	"a Repair": {
		func(t *testing.T, l *Locked) {
			begun(t, l)
			damage(t, l, onLine(3, func(b []byte) []byte { return bytes.Repeat([]byte("x"), len(b)) }))
		},
		func(l *Locked) error {
			return l.Repair(Record{Allocation: Allocation{ID: "a", Mode: ModeSetup}, Attachments: []Attachment{attachment("eth0", "")}})
		},
	},
}

func begun(t *testing.T, l *Locked) {
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n"}, []Attachment{attachment("eth0", ""), attachment("net1", "")}))
}

// grown leaves a journal that the next Begin or WriteDurable writes anew.
func grown(t *testing.T, l *Locked) {
	begun(t, l)
	text := strings.Repeat("x", 10_000)
	for l.journal.size < compactFrom {
		must(t, l.Write(attachment("net1", text)))
	}
	must(t, l.Write(attachment("net1", "")))
}

func unended(t *testing.T, l *Locked) {
	begun(t, l)
	writing(t, l, attachment("net1", "before"))
}

// writing has the process be killed that was writing an attachment, of which nothing but the newline is missing.
func writing(t *testing.T, l *Locked, a Attachment) {
	t.Helper()
	written, err := encode([]change{{Attachment: &a}})
	must(t, err)
	damage(t, l, func(b []byte) []byte { return append(b, written[:len(written)-1]...) })
}

// changes makes a call, and returns how many changes that takes, the record before
// it and the record after it.
func (w written) changes(t *testing.T) (n int, before, after string) {
	t.Helper()
	s := open(t)
	s.Intercept(withoutSync)
	l := lock(t, s, "a")
	w.find(t, l)
	before = describe(l.Load())
	k := &kill{after: 1_000_000}
	s.Intercept(k.intercept)
	must(t, w.call(l))
	n = 1_000_000 - k.after
	return n, before, describe(l.Load())
}

// describe tells records apart.
func describe(r Record, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v, %v\n", r.Allocation, err)
	for _, a := range r.Attachments {
		fmt.Fprintf(&b, "%s %s %s %q\n", a.Interface, a.Phase, a.ConfList, a.Error)
	}
	for _, d := range r.Damaged {
		fmt.Fprintf(&b, "damaged: %s, %d\n", filepath.Base(d.Path), d.Line)
	}
	return b.String()
}

// TestKilledAtEveryChange: whatever change a process is killed at, the next one
// finds the old record or the new one, and can go on.
func TestKilledAtEveryChange(t *testing.T) {
	for name, w := range writtenCalls {
		n, before, after := w.changes(t)
		for _, how := range killings {
			for at := range n {
				exhaustive.Run(t, fmt.Sprintf("%s/%d, %s", name, at, how), func(t *testing.T) {
					s := open(t)
					s.Intercept(withoutSync)
					empty := listFiles(t, s)
					l := lock(t, s, "a")
					w.find(t, l)
					s.Intercept((&kill{after: at, how: how}).intercept)
					if err := w.call(l); err == nil {
						t.Error("the call did not notice that it is dead")
					}
					l.Unlock() // which a dead process does not: the lock's file stays
					again, err := Open(s.dir)
					must(t, err)
					checkRecovered(t, again, before, after, empty)
				})
			}
		}
	}
}

// checkRecovered looks at a store as the next process does.
func checkRecovered(t *testing.T, s *Store, before, after string, empty []string) {
	t.Helper()
	s.Intercept(withoutSync)
	checkRecord(t, describe(s.Read("a")), before, after)
	l := lock(t, s, "a")
	r, err := l.Load()
	checkRecord(t, describe(r, err), before, after)
	checkMarks(t, s, r)
	if len(r.Damaged) > 0 {
		must(t, l.Repair(r))
	}
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "next"}, []Attachment{attachment("net9", "")}))
	must(t, l.Sync())
	if r, err := s.Read("a"); err != nil || len(r.Damaged) > 0 || r.Allocation.Netns != "next" {
		t.Errorf("after the next Begin: %+v, %v", r, err)
	}
	must(t, l.Clear())
	l.Unlock()
	must(t, s.RemoveStale())
	must(t, os.RemoveAll(filepath.Join(s.dir, "damaged")))
	if left := listFiles(t, s); !slices.Equal(left, empty) {
		t.Errorf("left are %v, want %v", left, empty)
	}
}

// checkRecord: each line of a record is that of before or of after.
func checkRecord(t *testing.T, got, before, after string) {
	t.Helper()
	lines := func(text string) []string { return strings.Split(text, "\n") }
	for _, line := range lines(got) {
		if !strings.Contains(before+after, line+"\n") {
			t.Errorf("%q is neither in the old record nor in the new one:\n%s\n%s", line, before, after)
		}
	}
	for _, line := range lines(before) {
		if strings.Contains(after, line+"\n") && !strings.Contains(got, line+"\n") {
			t.Errorf("%q is lost from\n%s", line, got)
		}
	}
}

// checkMarks: a record that says so has the mark.
func checkMarks(t *testing.T, s *Store, r Record) {
	t.Helper()
	pending, err := s.Pending()
	must(t, err)
	ports, err := marked(filepath.Join(s.dir, portMarks))
	must(t, err)
	for _, a := range r.Attachments {
		if a.Phase == Pending && !slices.Contains(pending, "a") {
			t.Error("a pending attachment, and no mark")
		}
		if a.ChosenPorts != nil && !slices.Contains(ports, "a") {
			t.Error("a chosen port, and no mark")
		}
	}
}

func listFiles(t *testing.T, s *Store) (paths []string) {
	t.Helper()
	must(t, filepath.WalkDir(s.dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, strings.TrimPrefix(path, s.dir))
		return err
	}))
	return paths
}

// TestCutAtEveryByte: of a line that a killed process was writing, a part counts
// only if nothing but the newline is missing. So of attachments that change together all
// have changed, or none.
func TestCutAtEveryByte(t *testing.T) {
	for name, written := range map[string][]Attachment{
		"one":     {attachment("eth0", "again")},
		"several": {attachment("eth0", "again"), attachment("net1", "new"), attachment("net2", "new")},
	} {
		t.Run(name, func(t *testing.T) { cutAtEveryByte(t, written) })
	}
}

func cutAtEveryByte(t *testing.T, written []Attachment) {
	t.Helper()
	s := open(t)
	l := lock(t, s, "a")
	begun(t, l)
	before, start := describe(l.Load()), l.journal.size
	must(t, l.Write(written...))
	after, end := describe(l.Load()), l.journal.size
	data, err := os.ReadFile(l.journal.path())
	must(t, err)
	for cut := start; cut <= end; cut++ {
		damage(t, l, func([]byte) []byte { return data[:cut] })
		l.Unlock()
		must(t, os.WriteFile(s.lockPath("a"), nil, 0o600)) // as after kill -9
		want := before
		if cut >= end-1 {
			want = after
		}
		l = lock(t, s, "a")
		if got := describe(l.Load()); got != want {
			t.Fatalf("cut at %d of %d to %d: %s", cut, start, end, cmp.Diff(want, got))
		}
	}
}

// TestFaultAtEveryChange: when a change fails, the call says so, the record is the
// old one or the new one, and the same lock can go on with it.
func TestFaultAtEveryChange(t *testing.T) {
	for name, w := range writtenCalls {
		n, before, after := w.changes(t)
		for at := range n {
			for _, made := range []bool{false, true} {
				exhaustive.Run(t, fmt.Sprintf("%s/%d, made %t", name, at, made), func(t *testing.T) {
					s := open(t)
					s.Intercept(withoutSync)
					l := lock(t, s, "a")
					w.find(t, l)
					f := &fault{after: at, made: made, err: unix.EIO}
					s.Intercept(f.intercept)
					if err := w.call(l); !errors.Is(err, unix.EIO) {
						t.Errorf("got %v, want EIO", err)
					}
					r, err := l.Load()
					checkRecord(t, describe(r, err), before, after)
					must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "next"}, []Attachment{attachment("net9", "")}))
					next, err := s.Read("a")
					at := slices.IndexFunc(next.Attachments, func(a Attachment) bool { return a.Interface == "net9" })
					if err != nil || next.Allocation.Netns != "next" || at < 0 || len(next.Damaged) > len(r.Damaged) {
						t.Errorf("after the next Begin: %+v, %v", next, err)
					}
				})
			}
		}
	}
}

// fault fails one change, which is made or not.
type fault struct {
	mu    sync.Mutex
	after int
	made  bool
	err   error
}

func (f *fault) intercept(op, path string, change func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after--
	if f.after != -1 {
		return withoutSync(op, path, change)
	}
	if f.made {
		return errors.Join(withoutSync(op, path, change), f.err)
	}
	return f.err
}

// TestFullDisk: what cannot be reserved is not recorded, and what is can be
// forgotten.
func TestFullDisk(t *testing.T) {
	for name, test := range map[string]struct {
		call func(*Locked) error
		want error
	}{
		"Begin": {func(l *Locked) error {
			return l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{attachment("net9", "")})
		}, unix.ENOSPC},
		"Write":        {func(l *Locked) error { return l.Write(attachment("net9", strings.Repeat("x", 100_000))) }, unix.ENOSPC},
		"WriteDurable": {func(l *Locked) error { return l.WriteDurable(pending("eth0")) }, nil},
		"Delete":       {func(l *Locked) error { return l.Delete("net1") }, nil},
		"Clear":        {func(l *Locked) error { return l.Clear() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			l := lock(t, s, "a")
			grown(t, l)
			s.Intercept(func(op, path string, change func() error) error {
				switch {
				case op == "create" && filepath.Dir(path) == l.journal.dir, op == "allocate":
					return &fs.PathError{Op: op, Path: path, Err: unix.ENOSPC}
				}
				return change()
			})
			if err := test.call(l); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// TestFullDiskUsesTheChunk: an attachment whose removal begins is recorded on a full disk,
// in what was reserved before.
func TestFullDiskUsesTheChunk(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	begun(t, l)
	l.Unlock()
	l = lock(t, s, "a") // another process
	before := blocks(t, l)
	asked := 0
	s.Intercept(func(op, path string, change func() error) error {
		if op != "allocate" {
			return change()
		}
		if asked++; asked == 1 { // for a further chunk
			return &fs.PathError{Op: op, Path: path, Err: unix.ENOSPC}
		}
		return change()
	})
	must(t, l.Write(attachment("eth0", "again"), attachment("net1", "new")))
	if r, err := l.Load(); err != nil || len(r.Attachments) != 2 || asked != 2 {
		t.Errorf("recorded is %+v, %v after %d reservations", r, err, asked)
	}
	if after := blocks(t, l); after != before {
		t.Errorf("the journal has %d blocks instead of %d", after, before)
	}
}

// TestFullDiskRecordsDeletion: of however many attachments, a full disk has room for saying
// that their removal begins and for forgetting them.
func TestFullDiskRecordsDeletion(t *testing.T) {
	for _, n := range []int{1, 2, 8, 64} {
		for _, text := range []int{0, 1000, 10_000} {
			t.Run(fmt.Sprintf("%d of %d bytes", n, text), func(t *testing.T) {
				s := open(t)
				s.Intercept(withoutSync)
				l := lock(t, s, "a")
				all := make([]Attachment, n)
				for i := range all {
					all[i] = attachment(fmt.Sprintf("net%d", i), strings.Repeat("x", text))
					all[i].Phase = Attached
				}
				must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n"}, all))
				must(t, l.Write(all...))
				l.Unlock()
				l = lock(t, s, "a") // another process
				before := blocks(t, l)
				s.Intercept(func(op, path string, change func() error) error {
					if op == "allocate" {
						return &fs.PathError{Op: op, Path: path, Err: unix.ENOSPC}
					}
					return withoutSync(op, path, change)
				})
				all[0].Batch = Batch{Kind: BatchDetach, ID: "net0"}
				must(t, l.WriteDeleting(all...))
				r, err := l.Load()
				must(t, err)
				for _, a := range r.Attachments {
					detached := a.Batch == Batch{Kind: BatchDetach, ID: a.Interface}
					if len(r.Attachments) != n || a.Phase != Deleting || detached != (a.Interface == "net0") {
						t.Errorf("recorded is %+v", a)
					}
				}
				for _, a := range all {
					must(t, l.Delete(a.Interface))
				}
				if after := blocks(t, l); after != before {
					t.Errorf("the journal has %d blocks instead of %d", after, before)
				}
			})
		}
	}
}

// blocks is how much of the disk the journal has.
func blocks(t *testing.T, l *Locked) int64 {
	t.Helper()
	var info unix.Stat_t
	must(t, unix.Stat(l.journal.path(), &info))
	return info.Blocks
}

// TestAllocate: a filesystem that reserves nothing is one to write to all the same, and on
// a full one less may be enough.
func TestAllocate(t *testing.T) {
	for failure, want := range map[unix.Errno]bool{
		unix.EINTR: true, unix.EOPNOTSUPP: true, unix.ENOSYS: true, unix.ENOSPC: true, unix.EDQUOT: true, unix.EIO: false,
	} {
		s := open(t)
		l := lock(t, s, "a")
		calls := 0
		s.Intercept(func(op, _ string, change func() error) error {
			if op == "allocate" && calls == 0 {
				calls++
				return failure
			}
			return change()
		})
		err := l.Begin(Allocation{ID: "a", Mode: ModeSetup}, nil)
		if (err == nil) != want || err != nil && (!errors.Is(err, failure) || !strings.Contains(err.Error(), l.journal.path())) {
			t.Errorf("%v: %v, want success %t", failure, err, want)
		}
	}
}

// TestTornWrite: where a part of a line stays, because the disk fails altogether,
// the next line is not a part of it.
func TestTornWrite(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	begun(t, l)
	s.Intercept(func(op, path string, change func() error) error {
		switch op {
		case "write":
			return errors.Join(change(), os.Truncate(named(path), size(path)-10), unix.EIO)
		case "truncate":
			return unix.EROFS
		}
		return change()
	})
	if err := l.Write(attachment("eth0", "torn")); !errors.Is(err, unix.EIO) || !errors.Is(err, unix.EROFS) {
		t.Errorf("got %v, want both causes", err)
	}
	s.Intercept(makeChange)
	must(t, l.Write(attachment("net2", "")))
	r, err := l.Load()
	var got []string
	for _, a := range r.Attachments {
		got = append(got, a.Interface)
	}
	if err != nil || !slices.Equal(got, []string{"eth0", "net1", "net2"}) || len(r.Damaged) != 1 {
		t.Errorf("attachments %v, damage %v, %v", got, r.Damaged, err)
	}
}

// TestChangesAreIntercepted: the tests of kills and faults see every kind of change.
func TestChangesAreIntercepted(t *testing.T) {
	var mu sync.Mutex // Sync syncs several directories in parallel
	ops := map[string]bool{}
	for _, w := range writtenCalls {
		s := open(t)
		l := lock(t, s, "a")
		w.find(t, l)
		s.Intercept(func(op, _ string, change func() error) error {
			mu.Lock()
			defer mu.Unlock()
			ops[op] = true
			return change()
		})
		must(t, w.call(l))
	}
	want := []string{"allocate", "create", "link", "mkdir", "remove", "rename", "sync", "write"}
	if got := slices.Sorted(maps.Keys(ops)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
