// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/filestore"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

const path = "allocnet/ipam/1/lab/pool"

func TestMain(m *testing.M) {
	if dir := os.Getenv("ALLOCNET_TEST_STORE"); dir != "" {
		change(dir)
	}
	os.Exit(m.Run())
}

func TestConforms(t *testing.T) {
	dir := t.TempDir()
	storetest.Conform(t, func(*testing.T) ipam.Store { return filestore.New(dir) })
}

// TestTooLarge: a content that could not be read again is refused, and others are not harmed.
func TestTooLarge(t *testing.T) {
	store, ctx := filestore.New(t.TempDir()), t.Context()
	for size, want := range map[int]error{ipam.MaxContent: nil, ipam.MaxContent + 1: ipam.ErrInvalid} {
		name := fmt.Sprint(path, size)
		_, err := store.Create(ctx, name, make([]byte, size))
		if !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if _, err := store.Get(ctx, name); err != nil && want == nil {
			t.Errorf("read %d bytes: %v", size, err)
		}
	}
	if _, err := store.List(ctx, path, 0); err != nil {
		t.Errorf("list: %v", err)
	}
}

// change adds to an entry, deletes it and makes it again until it is killed. It prints the
// content that it has made sure of.
func change(dir string) {
	store, ctx := filestore.New(dir), context.Background()
	for n := 1; ; n++ {
		entry, err := store.Get(ctx, path)
		content := []byte(strconv.Itoa(n))
		switch {
		case errors.Is(err, ipam.ErrNotFound):
			_, err = store.Create(ctx, path, content)
		case n%5 == 0:
			err, content = store.Delete(ctx, path, entry.Index), []byte("none")
		default:
			_, err = store.Update(ctx, path, content, entry.Index)
		}
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Printf("%s\n", content)
	}
}

// TestKilled: a writer that is killed at any instant leaves its last content, or the next one,
// and the counter never goes back.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	store := filestore.New(dir)
	var last uint64
	for round := range 25 {
		out := killed(t, dir, time.Duration(round)*500*time.Microsecond)
		entry, err := store.Get(t.Context(), path)
		if err != nil && !errors.Is(err, ipam.ErrNotFound) {
			t.Fatalf("round %d: %v", round, err)
		}
		listing, err := store.List(t.Context(), "", 0)
		if err != nil || listing.Index < last || listing.Index < entry.Index || len(listing.Entries) > 1 {
			t.Fatalf("round %d: %v, %v after the index %d", round, listing, err, last)
		}
		last = listing.Index
		if got := string(entry.Content); len(out) > 0 && !follows(out[len(out)-1], got, len(out)) {
			t.Errorf("round %d: content %q after %q", round, got, out[len(out)-1])
		}
		if err := store.Delete(t.Context(), path, entry.Index); err != nil {
			t.Errorf("round %d: delete: %v", round, err)
		}
	}
}

// follows reports whether a content is the last one that a writer printed or, of its n, the next.
func follows(printed, got string, n int) bool {
	if got == "" {
		return printed == "none" || (n+1)%5 == 0
	}
	return got == printed || got == strconv.Itoa(n+1)
}

// killed runs change, kills it a while after its first change, and returns what it has printed.
func killed(t *testing.T, dir string, after time.Duration) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ALLOCNET_TEST_STORE="+dir)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	var text strings.Builder
	first := make([]byte, 1)
	if _, err := read.Read(first); err != nil {
		t.Fatal(err)
	}
	text.Write(first)
	time.AfterFunc(after, func() { _ = cmd.Process.Signal(unix.SIGKILL) })
	buffer := make([]byte, 4096)
	for n := 0; err == nil; n, err = read.Read(buffer) {
		text.Write(buffer[:n])
	}
	_ = cmd.Wait()
	return strings.Fields(text.String())
}

// TestDamagedEntry: it is listed, so that its block counts as used, and the error names the
// file. Others are not affected.
func TestDamagedEntry(t *testing.T) {
	dir := t.TempDir()
	store := filestore.New(dir)
	other := path + "x"
	for _, path := range []string{path, other} {
		if _, err := store.Create(t.Context(), path, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, strings.ReplaceAll(path, "/", ","))
	for name, damage := range map[string]func() error{
		"empty":  func() error { return os.WriteFile(file, nil, 0o600) },
		"text":   func() error { return os.WriteFile(file, []byte("x\ny"), 0o600) },
		"zero":   func() error { return os.WriteFile(file, []byte("0\ny"), 0o600) },
		"large":  func() error { return os.WriteFile(file, []byte("9\n"+strings.Repeat("y", 1<<20)), 0o600) },
		"cut":    func() error { return os.WriteFile(file, []byte("12"), 0o600) },
		"pipe":   func() error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)) },
		"link":   func() error { return errors.Join(os.Remove(file), os.Symlink("/dev/zero", file)) },
		"folder": func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
	} {
		if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, []byte("1\n"), 0o600), damage()); err != nil {
			t.Fatal(name, err)
		}
		_, err := store.Get(t.Context(), path)
		if !errors.Is(err, ipam.ErrUnavailable) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: Get: %v, want an error with the file's path", name, err)
		}
		if _, err := store.Create(t.Context(), path, []byte("x")); !errors.Is(err, ipam.ErrUnavailable) {
			t.Errorf("%s: Create: %v, want an error", name, err)
		}
		if err := store.Delete(t.Context(), path, 1); !errors.Is(err, ipam.ErrUnavailable) {
			t.Errorf("%s: Delete: %v, want an error", name, err)
		}
		listing, err := store.List(t.Context(), path, 0)
		if err != nil || len(listing.Entries) != 2 || listing.Entries[0].Index != 0 || listing.Entries[1].Index == 0 {
			t.Errorf("%s: List: %v, %v, want both, the damaged one with the index 0", name, listing, err)
		}
	}
}

// TestLostCounter: indexes go on above those of all entries, and above those of a store that
// was lost.
func TestLostCounter(t *testing.T) {
	dir := t.TempDir()
	store := filestore.New(dir)
	first, err := store.Create(t.Context(), path, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, strings.ReplaceAll(path, "/", ","))
	high := first + 1<<40 // as if the clock was set back
	if err := errors.Join(os.Remove(filepath.Join(dir, ".counter")), os.WriteFile(file, fmt.Appendf(nil, "%d\nx", high), 0o600)); err != nil {
		t.Fatal(err)
	}
	if second, err := store.Update(t.Context(), path, []byte("y"), high); err != nil || second <= high {
		t.Errorf("index %d after %d, %v", second, high, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if third, err := store.Create(t.Context(), path, []byte("x")); err != nil || third < first {
		t.Errorf("a store that replaces a lost one has the index %d after %d, %v", third, first, err)
	}
}

// TestCutCounter: the rest of a number is none: indexes that were used would be used again.
func TestCutCounter(t *testing.T) {
	dir := t.TempDir()
	store, counter := filestore.New(dir), filepath.Join(dir, ".counter")
	if _, err := store.Create(t.Context(), path, []byte("x")); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(counter)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range whole {
		if err := os.WriteFile(counter, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Create(t.Context(), path+"x", []byte("x")); !errors.Is(err, ipam.ErrUnavailable) || !strings.Contains(err.Error(), counter) {
			t.Errorf("of %d of %d bytes: %v, want an error with the file's path", cut, len(whole), err)
		}
	}
}

// TestPaths: a path cannot leave the directory.
func TestPaths(t *testing.T) {
	store := filestore.New(t.TempDir())
	for _, path := range []string{"", "..", "a/../../b", "a,b", "a\x00", "é", strings.Repeat("a", 129)} {
		if _, err := store.Create(t.Context(), path, []byte("x")); !errors.Is(err, ipam.ErrRefused) {
			t.Errorf("path %q: %v", path, err)
		}
	}
}

// TestLockIsNoPipe: a pipe in the place of the lock is refused at once.
func TestLockIsNoPipe(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, ".lock"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := filestore.New(dir).Get(t.Context(), path); !errors.Is(err, ipam.ErrUnavailable) {
		t.Errorf("error %v, want one of an unavailable store", err)
	}
}

// TestUnavailable: the error of a store that cannot be used names its directory.
func TestUnavailable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	store := filestore.New(file)
	_, err := store.Create(t.Context(), path, []byte("x"))
	_, waited := store.List(t.Context(), path, 1)
	for _, err := range []error{err, waited} {
		if !errors.Is(err, ipam.ErrUnavailable) || !strings.Contains(err.Error(), file) {
			t.Errorf("%v, want it with the path %s", err, file)
		}
	}
}
