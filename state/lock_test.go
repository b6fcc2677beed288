// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

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
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, nil))
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

// TestLockOutlivesTheHolder: an allocation stays locked until a program has ended that inherits
// the lock.
func TestLockOutlivesTheHolder(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), actAs+"=holder")
	child.ExtraFiles = []*os.File{l.File()}
	must(t, child.Start())
	another, err := Open(s.dir)
	must(t, err)
	must(t, l.File().Close()) // as a killed process does
	if _, err := another.TryLock("a"); !errors.Is(err, ErrLocked) {
		t.Errorf("while the child runs: %v, want ErrLocked", err)
	}
	must(t, child.Process.Kill())
	_ = child.Wait() // killed
	taken, err := another.TryLock("a")
	must(t, err)
	taken.Unlock()
	if taken.File() != nil {
		t.Error("the lock has a file after Unlock")
	}
}

// TestNoRecordIsNoDirectory: what a killed process left of a directory goes with
// the next lock; a record stays.
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
	if err := os.Mkdir(s.allocationDir("empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"begun", "half", "empty", "unknown"} {
		lock(t, s, id).Unlock()
	}
	left, err := os.ReadDir(s.allocations())
	if err != nil || len(left) != 1 || left[0].Name() != "half" {
		t.Errorf("left are %v (%v), want half of a record", left, err)
	}
}

// TestStaleLocks: only a lock that no process holds is stale, and goes with what has
// no record.
func TestStaleLocks(t *testing.T) {
	s := open(t)
	held := lock(t, s, "held")
	must(t, os.WriteFile(s.lockPath("killed"), nil, 0o600))
	stale, err := s.StaleLocks()
	if err != nil || !slices.Equal(stale, []string{"killed"}) {
		t.Errorf("got %v, %v", stale, err)
	}
	must(t, os.WriteFile(filepath.Join(s.dir, pendingMarks, "lost"), nil, 0o600))
	must(t, s.RemoveStale())
	if _, err := os.Stat(s.lockPath("killed")); err == nil {
		t.Error("the stale lock is left")
	}
	if marked, err := s.Pending(); err != nil || len(marked) > 0 {
		t.Errorf("marks of no record: %v, %v", marked, err)
	}
	if _, err := os.Stat(held.file.Name()); err != nil {
		t.Errorf("a lock that is held was removed: %v", err)
	}
}

// TestStaleLocksThatCannotBeRead: what is no lock file is an error, and what has no
// name of an allocation is left.
func TestStaleLocksThatCannotBeRead(t *testing.T) {
	s := open(t)
	must(t, os.Mkdir(s.lockPath("folder"), 0o700))
	if _, err := s.StaleLocks(); err == nil {
		t.Error("a directory is taken for a lock")
	}
	if err := s.RemoveStale(); err == nil {
		t.Error("RemoveStale does not say what it could not read")
	}
	must(t, os.RemoveAll(filepath.Join(s.dir, "locks")))
	if _, err := s.StaleLocks(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the directory: %v", err)
	}
	if _, err := s.Lock(t.Context(), "a"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("Lock without the directory: %v", err)
	}
}

func TestTryLock(t *testing.T) {
	s := open(t)
	held := lock(t, s, "a")
	if _, err := s.TryLock("a"); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "a is locked") {
		t.Errorf("within the process: %v, want ErrLocked", err)
	}
	another, err := Open(s.dir)
	must(t, err)
	if _, err := another.TryLock("a"); !errors.Is(err, ErrLocked) {
		t.Errorf("of another process: %v, want ErrLocked", err)
	}
	held.Unlock()
	again, err := another.TryLock("a")
	must(t, err)
	again.Unlock()
}

// TestHold: plugins inherit the directory of a record; without one, or while a
// teardown waits for other plugins, there is nothing to inherit.
func TestHold(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	if _, err := l.Hold(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a record: %v", err)
	}
	begun(t, l)
	waiting, err := files.LockDir(t.Context(), l.journal.dir, unix.LOCK_EX)
	must(t, err)
	if _, err := l.Hold(); !errors.Is(err, unix.EWOULDBLOCK) || !strings.Contains(err.Error(), l.journal.dir) {
		t.Errorf("while another has it: %v", err)
	}
	waiting()
	hold, err := l.Hold()
	must(t, err)
	must(t, hold.Close())
}

// TestUnlockClosesFiles: an agent unlocks for as long as it runs.
func TestUnlockClosesFiles(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	must(t, err)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n"}, []Attachment{attachment("eth0", "")}))
	l.Unlock()
	open, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	for _, fd := range open {
		if path, _ := os.Readlink(fd); strings.HasPrefix(path, filepath.Join(dir, "allocations")) {
			t.Errorf("%s is open", path)
		}
	}
}
