// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestLock: one process at a time, and what is left without records is nothing.
func TestLock(t *testing.T) {
	dir := Dir(t.TempDir())
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("twice: %v", err)
	}
	unlock()
	if unlock, err = Lock(dir); err != nil {
		t.Fatalf("after it was unlocked: %v", err)
	}
	defer unlock()
	if err := RemoveDir(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
}

// TestLockWhileRemoved: at no time have two processes the lock, also if one of them removes the
// directory, and that fails for none.
func TestLockWhileRemoved(t *testing.T) {
	dir := Dir(t.TempDir())
	var holders atomic.Int32
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for range 5000 {
				unlock, err := Lock(dir)
				if errors.Is(err, ErrLocked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if holders.Add(1) > 1 {
					t.Error("two have the lock")
				}
				runtime.Gosched() // to the others, which try
				holders.Add(-1)
				if i == 0 {
					if err := RemoveDir(dir); err != nil {
						t.Error(err)
					}
				}
				unlock()
			}
		})
	}
	group.Wait()
}

// TestRemovedLock: a file that was removed after it was opened is no lock, whether there is a new
// one or not.
func TestRemovedLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockName)
	open := func() *os.File {
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	first := open()
	if err := requireAt(first, path); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := requireAt(first, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	second := open()
	if err := requireAt(first, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("replaced: %v", err)
	}
	if err := requireAt(second, path); err != nil {
		t.Error(err)
	}
}
