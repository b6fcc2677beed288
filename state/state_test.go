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
	"slices"
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
		if err := l.Write(attachment("net1", text)); err != nil {
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
		CapabilityArgs: map[string]any{"ips": []any{"10.0.0.1"}}, PluginDirs: []string{"/p"}, DependsOn: []string{"eth0"}, Result: []byte(`{"r":1}`),
		Status: []byte(`{"s":1}`), Attempts: 2, Error: "e", Created: time.Unix(2, 0).UTC(), Updated: time.Unix(3, 0).UTC(),
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
	must(t, l.Write(first))
	second.Phase = Pending
	must(t, l.WriteDurable(second))
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
	for _, id := range []string{"", ".", "..", "../x", "a/b", "a\x00b", "-a", "a b", "a.allocnet.net1", strings.Repeat("a", 129)} {
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
	if err := l.WriteDurable(Attachment{Interface: "../x"}); err == nil {
		t.Error("an interface name left the directory")
	}
}

// damage replaces the journal by what how makes of it.
func damage(t testing.TB, l *Locked, how func([]byte) []byte) []byte {
	t.Helper()
	l.mu.Lock()
	l.closeJournal()
	l.mu.Unlock()
	data, err := os.ReadFile(l.path())
	must(t, err)
	damaged := how(data)
	must(t, os.WriteFile(l.path(), damaged, 0o600))
	return damaged
}

// onLine changes one line of a journal, counted from 1.
func onLine(n int, how func([]byte) []byte) func([]byte) []byte {
	return func(data []byte) []byte {
		lines := bytes.SplitAfter(data, []byte("\n"))
		lines[n-1] = how(bytes.TrimSuffix(lines[n-1], []byte("\n")))
		lines[n-1] = append(lines[n-1], '\n')
		return bytes.Join(lines, nil)
	}
}

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
			must(t, l.Begin(Allocation{ID: "a", Netns: "n"}, []Attachment{attachment("eth0", ""), attachment("net1", "")}))
			damaged := damage(t, l, onLine(3, how))
			for range 2 {
				for who, read := range readers(s, l) {
					r, err := read()
					if err != nil || len(r.Attachments) != 1 || r.Allocation.Netns != "n" || len(r.Damaged) != 1 || r.Damaged[0].Line != 3 {
						t.Errorf("%s: got %+v, %v", who, r, err)
					}
				}
			}
			if kept, err := os.ReadFile(l.path()); err != nil || !bytes.Equal(kept, damaged) {
				t.Errorf("the file did not stay as it was: %v", err)
			}
		})
	}
}

func readers(s *Store, l *Locked) map[string]func() (Record, error) {
	return map[string]func() (Record, error){
		"with the lock": l.Load,
		"without":       func() (Record, error) { return s.Read(l.id) },
	}
}

// TestDamagedAllocation: the earlier line counts, and without one the damage is
// all that is known.
func TestDamagedAllocation(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a", Netns: "n"}, nil))
	must(t, l.Begin(Allocation{ID: "a", Netns: "n", NetnsID: "1"}, []Attachment{attachment("eth0", "")}))
	spoil := func([]byte) []byte { return []byte("x") }
	damage(t, l, onLine(2, spoil))
	if r, err := l.Load(); err != nil || r.Allocation.Netns != "n" || r.Allocation.NetnsID != "" || len(r.Damaged) != 1 || len(r.Attachments) != 1 {
		t.Errorf("the second line is damaged: %+v, %v", r, err)
	}
	damage(t, l, onLine(1, spoil))
	if r, err := l.Load(); err != nil || r.Allocation != (Allocation{ID: "a"}) || len(r.Damaged) != 2 || len(r.Attachments) != 1 {
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
			must(t, l.Begin(Allocation{ID: "a"}, []Attachment{attachment("eth0", "")}))
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

func TestRepair(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a", Netns: "n"}, []Attachment{attachment("eth0", ""), attachment("net1", "")}))
	damaged := damage(t, l, onLine(3, func(b []byte) []byte { return b[1:] }))
	old := filepath.Join(l.dir(), "attachment-net1.json")
	must(t, os.WriteFile(old, nil, 0o600))
	r, err := l.Load()
	must(t, err)
	if len(r.Damaged) != 2 {
		t.Errorf("got %v, want the line and the file of another layout", r.Damaged)
	}
	r.Attachments = append(r.Attachments, attachment("net1", "again"))
	must(t, l.Repair(r))
	must(t, l.Write(attachment("net2", "")))
	for who, read := range readers(s, l) {
		if r, err := read(); err != nil || len(r.Damaged) != 0 || len(r.Attachments) != 3 {
			t.Errorf("%s: %+v, %v", who, r, err)
		}
	}
	kept, _ := filepath.Glob(s.dir + "/damaged/a/journal.*")
	if len(kept) != 1 {
		t.Fatalf("kept are %v", kept)
	}
	if data, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(data, damaged) {
		t.Errorf("what is kept is not what was there: %v", err)
	}
}

// TestCompaction: what is attached and detached again and again, or never torn
// down, does not fill the disk, and damage is kept.
func TestCompaction(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	a := Allocation{ID: "a", Netns: "n"}
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
	if r, err := s.Read("a"); err != nil || len(r.Attachments) != 1 || r.Allocation != a {
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
	must(t, l.Begin(Allocation{ID: "a"}, nil))
	synced := 0
	s.sync = func(file *os.File) error {
		synced++
		written, err := file.Stat()
		must(t, err)
		named, err := os.Stat(l.path())
		must(t, err)
		if os.SameFile(written, named) {
			t.Error("it has the name already")
		}
		return nil
	}
	must(t, l.Repair(Record{Allocation: Allocation{ID: "a"}}))
	if synced != 1 {
		t.Errorf("synced %d times", synced)
	}
}

// TestWrittenMeanwhile: a reader without the lock whose line lacks its end, because
// it read before the writer was done, sees no damage after the writer's unlock.
func TestWrittenMeanwhile(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a"}, []Attachment{attachment("eth0", "")}))
	whole, err := os.ReadFile(l.path())
	must(t, err)
	l.Unlock()
	if data, damaged := s.tornWithout("a")(l.path(), whole[:len(whole)-5]); damaged || !bytes.Equal(data, whole) {
		t.Errorf("damaged: %t, read %q", damaged, data)
	}
}

// TestRoom: however many attachments there are, and however short their lines, the
// room that is kept on a full disk is enough to forget them all.
func TestRoom(t *testing.T) {
	for _, n := range []int{1, 30, 1000} {
		var made, forgotten []change
		for i := range n {
			name := fmt.Sprintf("interface-%05d", i)
			made = append(made, change{Attachment: &Attachment{Interface: name}})
			forgotten = append(forgotten, change{Forgotten: name})
		}
		lines, err := encode(made)
		must(t, err)
		need, err := encode(forgotten)
		must(t, err)
		if got := room(int64(len(lines))); got < int64(len(need)) {
			t.Errorf("%d attachments: room for %d bytes, want %d", n, got, len(need))
		}
	}
}

// reseal changes a line and gives it the right checksum.
func reseal(t *testing.T, data []byte, from, to string) []byte {
	t.Helper()
	var e line
	must(t, json.Unmarshal(data, &e))
	e.Record = []byte(strings.ReplaceAll(string(e.Record), from, to))
	e.SHA256 = checksum(e.Version, e.Record)
	sealed, err := json.Marshal(e)
	must(t, err)
	return sealed
}

// newer is a line of a version to come.
func newer() []byte {
	record := `{"new":true}`
	return fmt.Appendf(nil, `{"version":99,"sha256":%q,"record":%s}`+"\n", checksum(99, []byte(record)), record)
}

func TestNewerFormatIsLeftAlone(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a"}, nil))
	damage(t, l, func([]byte) []byte { return newer() })
	var refused *VersionError
	if _, err := l.Load(); !errors.As(err, &refused) || refused.Version != 99 || refused.Path != l.path() {
		t.Errorf("got %v, want *VersionError", err)
	}
	if _, err := os.Stat(l.path()); err != nil {
		t.Errorf("the file is gone: %v", err)
	}
}

func TestSymlinksAreNotFollowed(t *testing.T) {
	s := open(t)
	target := filepath.Join(t.TempDir(), "target")
	must(t, os.WriteFile(target, []byte("precious"), 0o600))
	l := lock(t, s, "a")
	must(t, os.Mkdir(l.dir(), 0o700))
	must(t, os.Symlink(target, filepath.Join(l.dir(), "."+journalFile)))
	if err := l.Begin(Allocation{ID: "a"}, nil); err == nil {
		t.Error("written through a symlink")
	}
	must(t, os.Symlink(target, s.lockPath("b")))
	if _, err := s.Lock(context.Background(), "b"); err == nil {
		t.Error("locked through a symlink")
	}
	for name, leave := range map[string]func() error{
		"link": func() error { return os.Symlink(target, l.path()) },
		"pipe": func() error { return unix.Mkfifo(l.path(), 0o600) },
	} {
		must(t, leave())
		if r, err := s.Read("a"); err != nil || len(r.Damaged) != 1 || len(r.Attachments) != 0 {
			t.Errorf("a %s is read as %+v, %v", name, r, err)
		}
		if err := l.Write(attachment("net1", "")); err == nil {
			t.Errorf("a %s is written to", name)
		}
		must(t, os.Remove(l.path()))
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
	must(t, l.WaitForPlugins(context.Background())) // no record yet
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
	if err := l.WaitForPlugins(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the child runs: %v, want the deadline", err)
	}
	must(t, child.Process.Kill())
	_ = child.Wait() // killed
	must(t, l.WaitForPlugins(context.Background()))
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
	leave("begun", "."+journalFile)
	leave("half", journalFile)
	leave("old", "attachment-net1.json")
	outside := t.TempDir()
	if err := os.Symlink(outside, s.allocationDir("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.allocationDir("empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"begun", "half", "old", "link", "empty", "unknown"} {
		lock(t, s, id).Unlock()
	}
	left, err := os.ReadDir(s.allocations())
	if err != nil || len(left) != 2 || left[0].Name() != "half" || left[1].Name() != "old" {
		t.Errorf("left are %v (%v), want half of a record, and the old layout", left, err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
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
		func() (func(), error) { return s.LockBridges(t.Context()) },
		func() (func(), error) { return s.LockPorts(t.Context(), true) },
		s.LockRetries,
	} {
		unlock, err := lock()
		must(t, err)
		unlock()
	}
	l := lock(t, s, "a")
	must(t, l.mark(portMarks))
	must(t, l.mark(pendingMarks))
	l.Unlock()
	if after := list(); !slices.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

func TestOpenWhereItCannot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want an error that names the path", err)
	}
}

// TestChosenPorts: the records that can have chosen ports are found by their
// marks, which leave with the record, or with the lock of a killed process.
func TestChosenPorts(t *testing.T) {
	s := open(t)
	chosen := attachment("net1", "")
	chosen.ChosenPorts = []byte("[]")
	for id, a := range map[string]Attachment{"assigned": attachment("net1", ""), "chosen": chosen} {
		l := lock(t, s, id)
		must(t, l.Begin(Allocation{ID: id}, []Attachment{a}))
		l.Unlock()
	}
	killed := lock(t, s, "killed")
	must(t, killed.mark(portMarks))
	lost := lock(t, s, "lost")
	must(t, lost.Begin(Allocation{ID: "lost"}, []Attachment{chosen}))
	must(t, os.RemoveAll(lost.dir()))
	must(t, lost.file.Close()) // as kill -9 does
	var found []string
	for r, err := range s.ListChosen(t.Context()) {
		must(t, err)
		found = append(found, r.Allocation.ID)
	}
	if len(found) != 1 || found[0] != "chosen" {
		t.Errorf("found %v, want chosen alone", found)
	}
	killed.Unlock()
	l := lock(t, s, "chosen")
	must(t, l.Clear())
	l.Unlock()
	lost.release()
	must(t, os.Remove(s.lockPath("lost")))
	must(t, s.RemoveStale())
	if left, err := s.marked(portMarks); err != nil || len(left) != 0 {
		t.Errorf("marks left: %v, %v", left, err)
	}
}

// FuzzRecord reads lines that are sealed as ours are, and files as they come.
func FuzzRecord(f *testing.F) {
	first := attachment("net1", "x")
	for _, c := range []change{{Attachment: &first}, {Allocation: &Allocation{ID: "a"}}, {Forgotten: "net1"}} {
		data, err := json.Marshal(c)
		must(f, err)
		f.Add(data, true)
	}
	f.Add(newer(), false)
	f.Add([]byte(`{"attachment":{"interface":"."}}`), true)
	f.Add([]byte("\n\x00"), false)
	s := open(f)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed {
			var e line
			if text, err := json.Marshal(line{formatVersion, "", data}); err != nil || json.Unmarshal(text, &e) != nil {
				return // no JSON, which has no checksum that holds
			}
			e.SHA256 = checksum(e.Version, e.Record)
			data, _ = json.Marshal(e)
			data = append(data, '\n')
		}
		l := lock(t, s, "a")
		defer l.Unlock()
		must(t, errors.Join(os.RemoveAll(l.dir()), os.Mkdir(l.dir(), 0o700), os.WriteFile(l.path(), data, 0o600)))
		r, err := l.Load()
		if err != nil {
			return
		}
		if r.Allocation.ID != "a" {
			t.Errorf("%q is of allocation %q", data, r.Allocation.ID)
		}
		must(t, l.Repair(r))
		again, err := l.Load()
		must(t, err)
		r.Damaged, again.Damaged = nil, nil // what nothing tells is damage again
		first, _ := json.Marshal(r)
		second, _ := json.Marshal(again)
		if !bytes.Equal(first, second) {
			t.Errorf("%q is read as %s, and written as %s", data, first, second)
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
				must(b, os.WriteFile(filepath.Join(dir, journalFile), nil, 0o600))
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
