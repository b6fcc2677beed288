// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package connect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStateDirectoryOfOthers: nothing is read or written where other users can write.
func TestStateDirectoryOfOthers(t *testing.T) {
	for _, sub := range []string{"", "ipam"} {
		state := t.TempDir()
		dir := filepath.Join(state, sub)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o770); err != nil { // what is to be refused
			t.Fatal(err)
		}
		if _, _, err := New(t.TempDir(), state).Open(); err == nil || !strings.Contains(err.Error(), dir+" has mode 0770") {
			t.Errorf("%s: %v", dir, err)
		}
		if entries, err := os.ReadDir(filepath.Join(state, "ipam")); err == nil && len(entries) > 0 {
			t.Errorf("there are %v", entries)
		}
	}
}
