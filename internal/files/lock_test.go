// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// TestLock: waiting for a lock ends with the cause of the context, or when the lock is
// released.
func TestLock(t *testing.T) {
	path := t.TempDir() + "/lock"
	first, second := open(t, path), open(t, path)
	if err := files.Lock(t.Context(), first, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	reason := errors.New("scripted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if err := files.Lock(ctx, second, unix.LOCK_SH); !errors.Is(err, reason) {
		t.Errorf("waiting ended with %v", err)
	}
	waited := make(chan error)
	go func() { waited <- files.Lock(t.Context(), second, unix.LOCK_SH) }()
	files.CloseLocked(first)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if err := files.Lock(ctx, open(t, path), unix.LOCK_SH); err != nil {
		t.Errorf("a free lock is not taken with an ended context: %v", err)
	}
}

// TestClose: the lock is released although a child has the open file, too.
func TestClose(t *testing.T) {
	path := t.TempDir() + "/lock"
	file := open(t, path)
	child, err := unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	if err := files.Lock(t.Context(), file, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	files.CloseLocked(file)
	if err := unix.Flock(int(open(t, path).Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the lock is still held: %v", err)
	}
}

// TestIsAt: a file that was removed or replaced while its lock was waited for is no lock.
func TestIsAt(t *testing.T) {
	path := t.TempDir() + "/lock"
	file := open(t, path)
	for _, step := range []struct {
		name   string
		change func() error
		want   bool
	}{
		{"as it was", func() error { return nil }, true},
		{"removed", func() error { return os.Remove(path) }, false},
		{"replaced", func() error { return os.WriteFile(path, nil, 0o600) }, false},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if is, err := files.IsAt(file, path); err != nil || is != step.want {
			t.Errorf("%s: %t, %v", step.name, is, err)
		}
	}
	if is, err := files.IsAt(open(t, path), path); err != nil || !is {
		t.Errorf("the new one: %t, %v", is, err)
	}
	_ = file.Close()
	if _, err := files.IsAt(file, path); err == nil {
		t.Error("a closed file is a lock")
	}
}

// TestLockFile: the file and its directory are made, for this user alone; a link in their place is refused; the end of the
// context has the path.
func TestLockFile(t *testing.T) {
	path := t.TempDir() + "/new/lock"
	unlock, err := files.LockFile(t.Context(), path, unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	reason := errors.New("scripted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if _, err := files.LockFile(ctx, path, unix.LOCK_EX); !errors.Is(err, reason) || !strings.Contains(err.Error(), path) {
		t.Errorf("locked by another: %v", err)
	}
	unlock()
	if unlock, err = files.LockFile(ctx, path, unix.LOCK_EX); err != nil {
		t.Fatalf("after it was unlocked: %v", err)
	}
	unlock()
	if err := errors.Join(os.Remove(path), os.Symlink("other", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := files.LockFile(t.Context(), path, unix.LOCK_EX); !errors.Is(err, files.ErrNotRegular) {
		t.Errorf("a link: %v", err)
	}
}

// TestLockDir: a directory is not made.
func TestLockDir(t *testing.T) {
	dir := t.TempDir()
	unlock, err := files.LockDir(t.Context(), dir, unix.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := files.LockDir(t.Context(), dir+"/missing", unix.LOCK_SH); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing one: %v", err)
	}
}
