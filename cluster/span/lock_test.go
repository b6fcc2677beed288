// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"errors"
	"os"
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
