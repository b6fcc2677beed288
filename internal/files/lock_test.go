// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files_test

import (
	"context"
	"errors"
	"os"
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
