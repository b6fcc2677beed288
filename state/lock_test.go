// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
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
