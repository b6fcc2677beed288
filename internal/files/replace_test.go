// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"
)

// recorder is a directory that records its steps, and fails or crashes at one.
type recorder struct {
	directory
	steps []string
	// failAt is the number of the step that fails, from 1; 0: none.
	failAt int
	// crash panics instead: nothing is undone, as after kill -9.
	crash bool
}

// crashed is the panic of a recorder.
type crashed struct{}

var errFull = fmt.Errorf("scripted: %w", unix.ENOSPC)

func (r *recorder) step(name string) error {
	r.steps = append(r.steps, name)
	if len(r.steps) != r.failAt {
		return nil
	}
	if r.crash {
		panic(crashed{})
	}
	return errFull
}

func (r *recorder) create(name string, mode fs.FileMode) (file, error) {
	if err := r.step("create"); err != nil {
		return nil, err
	}
	f, err := r.directory.create(name, mode)
	return recordedFile{f, r}, err
}

func (r *recorder) createShared(name string) (file, func(), error) {
	if err := r.step("create shared"); err != nil {
		return nil, nil, err
	}
	f, release, err := r.directory.createShared(name)
	return recordedFile{f, r}, release, err
}

func (r *recorder) link(from, to string) error {
	return errors.Join(r.step("link"), r.whenWell(func() error { return r.directory.link(from, to) }))
}

func (r *recorder) rename(from, to string) error {
	return errors.Join(r.step("rename"), r.whenWell(func() error { return r.directory.rename(from, to) }))
}

func (r *recorder) renameNew(from, to string) error {
	return errors.Join(r.step("rename new"), r.whenWell(func() error { return r.directory.renameNew(from, to) }))
}

func (r *recorder) exchange(from, to string) error {
	return errors.Join(r.step("exchange"), r.whenWell(func() error { return r.directory.exchange(from, to) }))
}

func (r *recorder) remove(name string) error {
	return errors.Join(r.step("remove"), r.whenWell(func() error { return r.directory.remove(name) }))
}

func (r *recorder) sync() error {
	return errors.Join(r.step("sync directory"), r.whenWell(r.directory.sync))
}

// whenWell does a step unless it is the one that fails.
func (r *recorder) whenWell(do func() error) error {
	if len(r.steps) == r.failAt {
		return nil
	}
	return do()
}

type recordedFile struct {
	file
	r *recorder
}

func (f recordedFile) Write(data []byte) (int, error) {
	if err := f.r.step("write"); err != nil {
		n, _ := f.file.Write(data[:len(data)/2]) // what a full disk takes
		return n, err
	}
	return f.file.Write(data)
}

func (f recordedFile) Chmod(mode fs.FileMode) error {
	return errors.Join(f.r.step("chmod"), f.file.Chmod(mode))
}

func (f recordedFile) Sync() error { return errors.Join(f.r.step("sync file"), f.file.Sync()) }

func (f recordedFile) Close() error { return errors.Join(f.file.Close(), f.r.step("close")) }

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	opened, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestExisting: a file is replaced, or what has its name, and none is made. Nothing else is left.
func TestExisting(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	replace := func() error {
		return Replace(path, []byte("new"), Options{Mode: 0o644, Existing: true})
	}
	if err := replace(); !errors.Is(err, fs.ErrNotExist) || len(names(t, dir)) > 0 {
		t.Errorf("without a file: %v, %v", err, names(t, dir))
	}
	for what, make := range map[string]func() error{
		"a file":      func() error { return os.WriteFile(path, []byte("old"), 0o600) },
		"a link":      func() error { return os.Symlink("/etc/passwd", path) },
		"a directory": func() error { return os.Mkdir(path, 0o700) },
	} {
		if err := errors.Join(make(), replace()); err != nil || content(t, path) != "new" || len(names(t, dir)) != 1 {
			t.Errorf("%s: %v, %v", what, err, names(t, dir))
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// TestExistingAfterAKill: a writer that was killed at any step leaves the old content or the new, and nothing that its successor, or what
// removes the file, does not remove.
func TestExistingAfterAKill(t *testing.T) {
	for _, removes := range []bool{false, true} {
		for failAt, done := 1, false; !done; failAt++ {
			dir := t.TempDir()
			path, opened := filepath.Join(dir, "f"), openRoot(t, dir)
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := &recorder{directory: root{opened}, failAt: failAt, crash: true}
			_ = survive(func() (err error) {
				err = write(r, "f", []byte("new"), Options{Existing: true})
				done = true
				return err
			})
			if got := content(t, path); got != "old" && got != "new" {
				t.Errorf("killed at %v: %q", r.steps, got)
			}
			want, err := 1, ReplaceIn(opened, "f", []byte("new"), Options{Existing: true})
			if removes {
				want, err = 0, ClearFile(opened, "f")
			}
			if left := names(t, dir); err != nil || len(left) != want {
				t.Errorf("killed at %v: %v, %v", r.steps, left, err)
			}
		}
	}
}

// limited is a directory of a file system that cannot rename with flags, as NFS.
type limited struct{ directory }

func (limited) renameNew(string, string) error { return unix.EINVAL }

func (limited) exchange(string, string) error { return unix.EINVAL }

// TestLimited: without such renames nothing is made or replaced that should not be either. Nothing else is left.
func TestLimited(t *testing.T) {
	for what, test := range map[string]struct {
		options Options
		make    func(path string) error
		want    error
		content string
	}{
		"new":                       {Options{New: true}, nil, nil, "new"},
		"new, and there is one":     {Options{New: true}, containing("old"), fs.ErrExist, "old"},
		"existing":                  {Options{Existing: true}, containing("old"), nil, "new"},
		"existing, and longer":      {Options{Existing: true}, containing("older"), nil, "new"},
		"existing, and shorter":     {Options{Existing: true}, containing(""), nil, "new"},
		"existing, and long":        {Options{Existing: true}, func(path string) error { return errors.Join(containing("old")(path), os.Truncate(path, 1<<40)) }, nil, "new"},
		"existing, and removed":     {Options{Existing: true}, nil, fs.ErrNotExist, ""},
		"existing, and a link":      {Options{Existing: true}, func(path string) error { return os.Symlink("../victim", path) }, fs.ErrNotExist, "victim"},
		"existing, and a pipe":      {Options{Existing: true}, func(path string) error { return unix.Mkfifo(path, 0o600) }, fs.ErrNotExist, ""},
		"existing, and a directory": {Options{Existing: true}, func(path string) error { return os.Mkdir(path, 0o700) }, fs.ErrNotExist, ""},
		"existing, and another's":   {Options{Existing: true}, func(path string) error { return os.Link(filepath.Dir(path)+"/../victim", path) }, fs.ErrNotExist, "victim"},
	} {
		dir := filepath.Join(t.TempDir(), "dir")
		path := filepath.Join(dir, "f")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(dir+"/../victim", []byte("victim"), 0o600)); err != nil {
			t.Fatal(err)
		}
		left := 1
		if test.make == nil {
			left = len(test.content) / 3 // the new one
		} else if err := test.make(path); err != nil {
			t.Fatal(err)
		}
		err := write(limited{root{openRoot(t, dir)}}, "f", []byte("new"), test.options)
		if !errors.Is(err, test.want) || len(names(t, dir)) != left {
			t.Errorf("%s: %v, want %v; left: %v", what, err, test.want, names(t, dir))
		}
		if test.content != "" && content(t, path) != test.content {
			t.Errorf("%s: it has %q", what, content(t, path))
		}
	}
}

// TestLimitedByNoTask: a file that a task has made as long as no disk takes no memory.
func TestLimitedByNoTask(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Truncate(path, 64<<20)); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := write(limited{root{openRoot(t, dir)}}, "f", []byte("new"), Options{Existing: true})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != nil || content(t, path) != "new" || took > 8*mostPadding {
		t.Errorf("%v, %q, with %d bytes of memory", err, content(t, path), took)
	}
}

// containing makes a file.
func containing(text string) func(path string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
}

func TestSteps(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    []string
	}{
		"plain":    {Options{}, []string{"remove", "create", "write", "chmod", "close", "rename"}},
		"new":      {Options{New: true}, []string{"remove", "create", "write", "chmod", "close", "rename new"}},
		"unlocked": {Options{Unlocked: true}, []string{"create shared", "write", "chmod", "close", "rename"}},
		"durable":  {Options{Durable: true}, []string{"remove", "create", "write", "chmod", "sync file", "close", "rename", "sync directory"}},
	} {
		r := &recorder{directory: root{openRoot(t, t.TempDir())}}
		if err := write(r, "f", []byte("x"), test.options); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, r.steps); diff != "" {
			t.Errorf("%s: steps (-want +got):\n%s", name, diff)
		}
	}
}

// TestFailureKeepsTheFile: each step of a durable write fails once, as on a full
// disk, and then the process is killed there. Only the last step, which comes after
// the rename, leaves the new content.
func TestFailureKeepsTheFile(t *testing.T) {
	const steps = 8
	for _, crash := range []bool{false, true} {
		for failAt := 1; failAt <= steps; failAt++ {
			r := &recorder{failAt: failAt, crash: crash}
			t.Run(fmt.Sprintf("crash=%t/step=%d", crash, failAt), func(t *testing.T) {
				dir := t.TempDir()
				r.directory = root{openRoot(t, dir)}
				path := filepath.Join(dir, "f")
				if err := Replace(path, []byte("old"), Options{}); err != nil {
					t.Fatal(err)
				}
				err := survive(func() error { return write(r, "f", []byte("new"), Options{Durable: true}) })
				want := "old"
				if failAt == steps {
					want = "new"
				}
				if got := content(t, path); got != want {
					t.Errorf("content %q after %v, want %q", got, r.steps, want)
				}
				if !crash && !errors.Is(err, unix.ENOSPC) {
					t.Errorf("error %v after %v, want ENOSPC", err, r.steps)
				}
				if left := names(t, dir); !crash && len(left) != 1 {
					t.Errorf("directory has %v after %v, want f alone", left, r.steps)
				}
				if err := Replace(path, []byte("next"), Options{}); err != nil || content(t, path) != "next" {
					t.Errorf("the next writer: %v, content %q", err, content(t, path))
				}
				if left := names(t, dir); len(left) != 1 {
					t.Errorf("directory has %v after the next writer, want f alone", left)
				}
			})
		}
	}
}

// survive returns from a crash.
func survive(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil && p != any(crashed{}) {
			panic(p)
		}
	}()
	return do()
}

func TestMode(t *testing.T) {
	before := unix.Umask(0o077)
	t.Cleanup(func() { unix.Umask(before) })
	path := filepath.Join(t.TempDir(), "f")
	for _, test := range []struct{ option, want fs.FileMode }{{0, 0o600}, {0o644, 0o644}, {0o640, 0o640}} {
		if err := Replace(path, nil, Options{Mode: test.option}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != test.want {
			t.Errorf("mode %v: file has %v, %v, want %v", test.option, info.Mode(), err, test.want)
		}
	}
}

// TestLinksAreReplaced: neither a link at the path nor one at the temporary name is
// written through.
func TestLinksAreReplaced(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	path := filepath.Join(dir, "f")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), os.Symlink(victim, path), os.Symlink(victim, filepath.Join(dir, temporaryName("f", Options{})))); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new"), Options{}); err != nil {
		t.Fatal(err)
	}
	if got := content(t, victim); got != "precious" {
		t.Errorf("the target of the link has %q", got)
	}
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || content(t, path) != "new" {
		t.Errorf("%s is %v, %v, want a file with the new content", path, info, err)
	}
}

// TestNew: what is at the path stays, also a link that leads nowhere, and nothing is left beside it.
func TestNew(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "f"), filepath.Join(dir, "link")
	if err := errors.Join(Replace(path, []byte("first"), Options{New: true}), os.Symlink("nowhere", link)); err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{path, link} {
		if err := Replace(taken, []byte("second"), Options{New: true, Unlocked: true}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v, want fs.ErrExist", taken, err)
		}
	}
	if got := names(t, dir); content(t, path) != "first" || len(got) != 2 {
		t.Errorf("%q with %q, want the first file and the link", got, content(t, path))
	}
}

// TestLinkedDirectory: the directory itself may be a link, as /run is on some hosts.
func TestLinkedDirectory(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(link, "f"), []byte("new"), Options{Durable: true}); err != nil || content(t, filepath.Join(dir, "f")) != "new" {
		t.Errorf("error %v", err)
	}
}

func TestObstacles(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, temporaryName("f", Options{})), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "f"), nil, Options{}); err != nil {
		t.Errorf("directory at the temporary name: %v, want it removed", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "d"), nil, Options{}); err == nil {
		t.Error("a directory was replaced")
	}
	if err := Replace(filepath.Join(dir, "none", "f"), nil, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v, want fs.ErrNotExist", err)
	}
	if err := ReplaceIn(openRoot(t, dir), "../f", nil, Options{}); err == nil {
		t.Error("a name left the directory")
	}
	if left := names(t, dir); !cmp.Equal(left, []string{"d", "f"}) {
		t.Errorf("left: %v", left)
	}
}

// TestUnlocked: several writers at a time each replace the file as a whole.
func TestUnlocked(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for range 16 {
				if err := Replace(path, []byte(fmt.Sprintf("%d%d", i, i)), Options{Unlocked: true}); err != nil {
					t.Error(err)
				}
				if data, err := os.ReadFile(path); err != nil || len(data) != 2 || data[0] != data[1] {
					t.Errorf("read %q, %v", data, err)
				}
			}
		})
	}
	writers.Wait()
	if left := names(t, dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// TestUnlockedAfterAKill: what a writer leaves that was killed at any step, or failed there, the next one removes, and nothing of the file.
func TestUnlockedAfterAKill(t *testing.T) {
	for name, of := range map[string]func(*testing.T, string) directory{
		"":        func(t *testing.T, dir string) directory { return root{openRoot(t, dir)} },
		"limited": func(t *testing.T, dir string) directory { return limited{root{openRoot(t, dir)}} },
	} {
		for _, o := range []Options{{Unlocked: true, Durable: true}, {Unlocked: true, New: true}} {
			for failAt, done := 2, false; !done; failAt++ {
				dir := t.TempDir()
				r := &recorder{directory: of(t, dir), failAt: failAt / 2, crash: failAt%2 == 0}
				_ = survive(func() error { return write(r, "f", []byte("first"), o) })
				done = failAt/2 > len(r.steps)
				had := slices.Contains(names(t, dir), "f")
				err := write(of(t, dir), "f", []byte("second"), o)
				want := "second"
				if o.New && had {
					want = "first"
				}
				if left := names(t, dir); content(t, dir+"/f") != want || len(left) != 1 || errors.Is(err, fs.ErrExist) != (want == "first") || err != nil && want == "second" {
					t.Errorf("%s %+v: crash %t at %v: %q, %v, %v", name, o, r.crash, r.steps, content(t, dir+"/f"), left, err)
				}
			}
		}
	}
}

// TestUnlockedObstacles: what another program has at the temporary name goes, and nothing that it leads to.
func TestUnlockedObstacles(t *testing.T) {
	for what, make := range map[string]func(dir, name string) error{
		"a link":             func(_, name string) error { return os.Symlink("victim", name) },
		"a link to nowhere":  func(_, name string) error { return os.Symlink("../nowhere", name) },
		"another name":       func(dir, name string) error { return os.Link(dir+"/victim", name) },
		"a pipe":             func(_, name string) error { return unix.Mkfifo(name, 0o600) },
		"a directory":        func(_, name string) error { return os.Mkdir(name, 0o700) },
		"a file of any user": func(_, name string) error { return os.WriteFile(name, []byte("long text"), 0o644) },
	} {
		dir := t.TempDir()
		must(t, errors.Join(os.WriteFile(dir+"/victim", []byte("precious"), 0o600), make(dir, filepath.Join(dir, temporaryName("f", Options{Unlocked: true})))))
		if err := Replace(dir+"/f", []byte("new"), Options{Unlocked: true}); err != nil || content(t, dir+"/f") != "new" || content(t, dir+"/victim") != "precious" || len(names(t, dir)) != 2 {
			t.Errorf("%s: %v, left: %v", what, err, names(t, dir))
		}
	}
}

// TestUnlockedWaits: a writer waits for another one with the temporary file, and not without an end.
func TestUnlockedWaits(t *testing.T) {
	dir := openRoot(t, t.TempDir())
	_, release, err := root{dir}.createShared("f")
	must(t, err)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errFull)
	if err := (root{dir}).removeUnused(ctx, "f"); !errors.Is(err, errFull) || len(names(t, dir.Name())) != 1 {
		t.Errorf("%v, left: %v", err, names(t, dir.Name()))
	}
	release()
	must(t, root{dir}.removeUnused(ctx, "f"))
	if left := names(t, dir.Name()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestOfTemporary: what a killed writer leaves has the name of its file, and other files have none.
func TestOfTemporary(t *testing.T) {
	for name, want := range map[string]string{
		temporaryName("pool.json", Options{}): "pool.json", "pool.json": "", ".pool.json": "", "pool.json.new": "", ".new": "",
	} {
		if of, ok := OfTemporary(name); ok != (want != "") || ok && of != want {
			t.Errorf("%s: %q, %t, want %q", name, of, ok, want)
		}
	}
}

// TestReplaceJSON: the directory is made, and Remove leaves nothing of the file or of a killed writer.
func TestReplaceJSON(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "file")
	must(t, Remove(path))
	must(t, ReplaceJSON(path, map[string]int{"a": 1}, Options{}))
	if got := content(t, path); got != `{"a":1}` {
		t.Errorf("%s", got)
	}
	if err := ReplaceJSON(path, func() {}, Options{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("of no JSON: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, temporaryName("file", Options{})), nil, 0o600))
	must(t, Remove(path))
	must(t, Remove(path))
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
