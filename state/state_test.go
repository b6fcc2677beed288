// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// actAs names what a test has the test binary do in a process of its own.
const actAs = "ALLOCNET_STATE_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(actAs) {
	case "writer":
		writeForEver(os.Args[1])
	case "holder":
		time.Sleep(time.Hour) // keeps what it inherited; the test kills it
	}
	os.Exit(m.Run())
}

// writeForEver rewrites the records of allocation "a".
func writeForEver(dir string) {
	s, err := Open(dir)
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		l, err := s.Lock(context.Background(), "a")
		if err != nil {
			panic(err)
		}
		text := strings.Repeat("x", i%5000)
		if err := l.Begin(Allocation{ID: "a", Digest: text}, []Attachment{attachment("net1", text), attachment("net2", text)}); err != nil {
			panic(err)
		}
		if err := l.Mark(attachment("net1", text)); err != nil {
			panic(err)
		}
		l.Unlock()
	}
}

func attachment(iface, text string) Attachment {
	conflist, _ := json.Marshal(map[string]string{"name": text})
	return Attachment{Network: "n", Interface: iface, Index: len(iface), Phase: Adding, ConfList: conflist}
}

func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func lock(t testing.TB, s *Store, id string) *Locked {
	t.Helper()
	l, err := s.Lock(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Unlock)
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriteAndRead(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	if _, err := l.Load(); !errors.Is(err, ErrNotFound) {
		t.Errorf("before: %v, want ErrNotFound", err)
	}
	a := Allocation{ID: "a", Netns: "/run/netns/a", NetnsOwned: true, NetnsID: "1", BootID: "b", Digest: "d", Created: time.Unix(1, 0).UTC()}
	second := Attachment{
		Network: "n", Interface: "net1", Index: 1, Phase: Attached, ConfList: []byte(`{"a":"b"}`), Args: [][2]string{{"A", "b"}},
		CapabilityArgs: map[string]any{"ips": []any{"10.0.0.1"}}, PluginDirs: []string{"/p"}, After: []string{"eth0"}, Result: []byte(`{"r":1}`),
		Status: []byte(`{"s":1}`), Tries: 2, Error: "e", Created: time.Unix(2, 0).UTC(), Updated: time.Unix(3, 0).UTC(),
	}
	first := Attachment{Network: "n", Interface: "eth0", Primary: true, Phase: Adding, ConfList: []byte(`{}`)}
	must(t, l.Begin(a, []Attachment{second, first}))
	want := Record{Allocation: a, Attachments: []Attachment{first, second}}
	for name, read := range map[string]func() (Record, error){
		"with the lock": l.Load, "without": func() (Record, error) { return s.Read("a") },
	} {
		if got, err := read(); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(want, got))
		}
	}
	must(t, l.Sync())
	first.Phase = Attached
	must(t, l.Mark(first))
	second.Phase = Pending
	must(t, l.Put(second))
	if got, err := l.Load(); err != nil || got.Attachments[0].Phase != Attached || got.Attachments[1].Phase != Pending {
		t.Errorf("after changes: %+v, %v", got, err)
	}
	must(t, l.Delete("eth0"))
	must(t, l.Delete("eth0"))
	if got, err := l.Load(); err != nil || len(got.Attachments) != 1 {
		t.Errorf("after a deletion: %+v, %v", got, err)
	}
	must(t, l.Clear())
	must(t, l.Clear())
	if _, err := s.Read("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after all: %v, want ErrNotFound", err)
	}
}

func TestList(t *testing.T) {
	s := open(t)
	for _, id := range []string{"b", "a", "c"} {
		must(t, lock(t, s, id).Begin(Allocation{ID: id}, nil))
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

func TestInvalidIDs(t *testing.T) {
	s := open(t)
	for _, id := range []string{"", ".", "..", "../x", "a/b", "a\x00b", "-a", "a b", strings.Repeat("a", 129)} {
		var invalid *InvalidIDError
		if _, err := s.Lock(context.Background(), id); !errors.As(err, &invalid) {
			t.Errorf("Lock(%q): %v, want *InvalidIDError", id, err)
		}
		if _, err := s.Read(id); !errors.As(err, &invalid) {
			t.Errorf("Read(%q): %v, want *InvalidIDError", id, err)
		}
	}
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a"}, nil))
	if err := l.Put(Attachment{Interface: "../x"}); err == nil {
		t.Error("an interface name left the directory")
	}
}

func TestDamagedFilesAreSetAside(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"truncated":        func(b []byte) []byte { return b[:len(b)/2] },
		"garbage":          func([]byte) []byte { return []byte("garbage") },
		"a flipped bit":    func(b []byte) []byte { b[len(b)-10] ^= 1; return b },
		"of another":       func(b []byte) []byte { return reseal(t, b, "net1", "net9") },
		"checksum missing": func([]byte) []byte { return []byte(`{"version":1,"record":{}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			l := lock(t, s, "a")
			must(t, l.Begin(Allocation{ID: "a"}, []Attachment{attachment("eth0", ""), attachment("net1", "")}))
			path := filepath.Join(l.dir(), "attachment-net1.json")
			data, err := os.ReadFile(path)
			must(t, err)
			damaged := damage(data)
			must(t, os.WriteFile(path, damaged, 0o600))

			if r, err := s.Read("a"); err != nil || len(r.Damaged) != 1 || r.Damaged[0].Path != path {
				t.Errorf("without the lock: %+v, %v, want it reported where it is", r.Damaged, err)
			}
			r, err := l.Load()
			must(t, err)
			if len(r.Attachments) != 1 || len(r.Damaged) != 1 || r.Damaged[0].Original != path {
				t.Fatalf("got %+v", r)
			}
			if kept, err := os.ReadFile(r.Damaged[0].Path); err != nil || string(kept) != string(damaged) {
				t.Errorf("the file was not kept as it was: %v", err)
			}
		})
	}
}

// reseal changes a record and gives it the right checksum.
func reseal(t *testing.T, data []byte, from, to string) []byte {
	t.Helper()
	var e envelope
	must(t, json.Unmarshal(data, &e))
	e.Record = []byte(strings.ReplaceAll(string(e.Record), from, to))
	e.SHA256 = checksum(e.Record)
	sealed, err := json.Marshal(e)
	must(t, err)
	return sealed
}

func TestNewerFormatIsLeftAlone(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a"}, nil))
	path := filepath.Join(l.dir(), allocationFile)
	must(t, os.WriteFile(path, []byte(`{"version":2,"new":true}`), 0o600))
	var newer *VersionError
	if _, err := l.Load(); !errors.As(err, &newer) || newer.Version != 2 {
		t.Errorf("got %v, want *VersionError", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file is gone: %v", err)
	}
}

func TestSymlinksAreNotFollowed(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a"}, nil))
	target := filepath.Join(t.TempDir(), "target")
	must(t, os.WriteFile(target, []byte("precious"), 0o600))
	must(t, os.Symlink(target, filepath.Join(l.dir(), ".attachment-net1.json")))
	if err := l.Put(attachment("net1", "")); err == nil {
		t.Error("written through a symlink")
	}
	must(t, os.Symlink(target, s.lockPath("b")))
	if _, err := s.Lock(context.Background(), "b"); err == nil {
		t.Error("locked through a symlink")
	}
	must(t, os.Symlink(target, filepath.Join(l.dir(), "attachment-net2.json")))
	must(t, unix.Mkfifo(filepath.Join(l.dir(), "attachment-net3.json"), 0o600))
	if r, err := s.Read("a"); err != nil || len(r.Damaged) != 2 || len(r.Attachments) != 0 {
		t.Errorf("a link and a pipe are read as %+v, %v", r, err)
	}
	must(t, l.Clear())
	if data, err := os.ReadFile(target); err != nil || string(data) != "precious" {
		t.Errorf("the target has %q, %v", data, err)
	}
}

// TestDirectoryOfOthers: whoever can write records has programs executed.
func TestDirectoryOfOthers(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"open to all":        func(dir string) error { return os.Chmod(dir, 0o777) },
		"open to a group":    func(dir string) error { return os.Chmod(filepath.Join(dir, "allocations"), 0o770) },
		"locks open to all":  func(dir string) error { return os.Chmod(filepath.Join(dir, "locks"), 0o777) },
		"of another user":    func(dir string) error { return os.Chown(dir, 12345, -1) },
		"records of another": func(dir string) error { return os.Chown(filepath.Join(dir, "allocations"), 12345, -1) },
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

func TestLocksExcludeProcesses(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir)
	must(t, err)
	second, err := Open(dir) // its in-process locks are its own, as another process's are
	must(t, err)
	held := lock(t, first, "a")
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, gaveUp)
	defer cancel()
	if _, err := second.Lock(ctx, "a"); !errors.Is(err, gaveUp) {
		t.Errorf("got %v, want the context's cause", err)
	}
	lock(t, second, "b").Unlock()
	got := make(chan error)
	go func() {
		l, err := second.Lock(context.Background(), "a")
		if err == nil {
			l.Unlock()
		}
		got <- err
	}()
	held.Unlock()
	held.Unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "locks")); len(left) != 0 {
		t.Errorf("lock files are left: %v", left)
	}
}

// TestHoldOutlivesTheHolder gives a child what plugins inherit, lets go of it
// as a killed process does, and sees that the child still counts.
func TestHoldOutlivesTheHolder(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Quiesce(context.Background())) // no record yet
	must(t, l.Begin(Allocation{ID: "a"}, nil))
	hold, err := l.Hold()
	must(t, err)
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), actAs+"=holder")
	child.ExtraFiles = []*os.File{hold}
	must(t, child.Start())
	must(t, hold.Close())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := l.Quiesce(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the child runs: %v, want the deadline", err)
	}
	must(t, child.Process.Kill())
	_ = child.Wait() // killed
	must(t, l.Quiesce(context.Background()))
}

// TestKilledWriter kills a process that writes, over and over.
func TestKilledWriter(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := open(t)
	for range 100 {
		writer := exec.Command("/proc/self/exe", s.dir)
		writer.Env = append(os.Environ(), actAs+"=writer")
		must(t, writer.Start())
		time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
		must(t, writer.Process.Kill())
		_ = writer.Wait() // killed
		l := lock(t, s, "a")
		r, err := l.Load()
		if errors.Is(err, ErrNotFound) {
			l.Unlock()
			continue
		}
		if err != nil || len(r.Damaged) != 0 {
			t.Fatalf("after kill -9: %v, damaged %v", err, r.Damaged)
		}
		l.Unlock()
	}
}

// TestNoRecordIsNoDirectory: what a killed process left of a directory goes with
// the next lock; a record stays as long as any file of it does.
func TestNoRecordIsNoDirectory(t *testing.T) {
	s := open(t)
	leave := func(id, file string) {
		t.Helper()
		if err := os.MkdirAll(s.allocationDir(id), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.allocationDir(id), file), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leave("begun", "."+allocationFile)
	leave("half", attachmentFile("net1"))
	outside := t.TempDir()
	if err := os.Symlink(outside, s.allocationDir("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.allocationDir("empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"begun", "half", "link", "empty", "unknown"} {
		lock(t, s, id).Unlock()
	}
	left, err := os.ReadDir(s.allocations())
	if err != nil || len(left) != 1 || left[0].Name() != "half" {
		t.Errorf("left are %v (%v), want half of a record", left, err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

func TestOpenWhereItCannot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want an error that names the path", err)
	}
}

// FuzzRecord reads records that are sealed as ours are, and files as they come.
func FuzzRecord(f *testing.F) {
	for _, record := range []any{attachment("net1", "x"), Allocation{ID: "a"}} {
		data, err := json.Marshal(record)
		must(f, err)
		f.Add("attachment-net1.json", data, true)
		f.Add("allocation.json", data, true)
	}
	f.Add("attachment-net1.json", []byte(`{"version":2}`), false)
	f.Add("attachment-..json", []byte(`{"interface":"."}`), true)
	s := open(f)
	f.Fuzz(func(t *testing.T, name string, data []byte, sealed bool) {
		if name != filepath.Base(name) || len(name) > 200 || strings.ContainsAny(name, "/\x00") || strings.Trim(name, ".") == "" {
			return // no file has such a name
		}
		if sealed {
			var e envelope
			if text, err := json.Marshal(envelope{formatVersion, "", data}); err != nil || json.Unmarshal(text, &e) != nil {
				return // no JSON, which has no checksum that holds
			}
			e.SHA256 = checksum(e.Record)
			data, _ = json.Marshal(e)
		}
		l := lock(t, s, "a")
		defer l.Unlock()
		must(t, errors.Join(os.RemoveAll(l.dir()), os.Mkdir(l.dir(), 0o700), os.WriteFile(filepath.Join(l.dir(), name), data, 0o600)))
		r, err := s.Read("a")
		if err != nil {
			return
		}
		if r.Allocation.ID != "a" {
			t.Errorf("%q in %s is of allocation %q", data, name, r.Allocation.ID)
		}
		must(t, os.RemoveAll(l.dir()))
		must(t, l.Begin(r.Allocation, r.Attachments))
		again, err := s.Read("a")
		must(t, err)
		r.Damaged = nil // which is not written
		first, _ := json.Marshal(r)
		second, _ := json.Marshal(again)
		if !bytes.Equal(first, second) {
			t.Errorf("%q in %s is read as %s, and written as %s", data, name, first, second)
		}
	})
}

// BenchmarkBegin shows that the number of other allocations does not matter.
func BenchmarkBegin(b *testing.B) {
	for _, others := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			s := open(b)
			for i := range others {
				dir := s.allocationDir(fmt.Sprintf("other-%d", i))
				must(b, os.Mkdir(dir, 0o700))
				must(b, os.WriteFile(filepath.Join(dir, allocationFile), nil, 0o600))
			}
			for b.Loop() {
				l, err := s.Lock(context.Background(), "a")
				must(b, err)
				must(b, l.Begin(Allocation{ID: "a"}, []Attachment{attachment("eth0", ""), attachment("net1", "")}))
				must(b, l.Sync())
				must(b, l.Clear())
				l.Unlock()
			}
		})
	}
}

// TestListGoesOn: one record of a newer format hides no other.
func TestListGoesOn(t *testing.T) {
	s := open(t)
	for _, id := range []string{"a", "b", "c"} {
		must(t, lock(t, s, id).Begin(Allocation{ID: id}, nil))
	}
	must(t, os.WriteFile(filepath.Join(s.allocationDir("b"), allocationFile), []byte(`{"version":2}`), 0o600))
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
