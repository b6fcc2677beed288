// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"errors"
	"os"
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
