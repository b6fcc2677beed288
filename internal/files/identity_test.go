// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/internal/files"
)

// TestIdentity: a file that has just been changed has none, nor has one that is missing. One of before has the same each time, which is another
// file's not.
func TestIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if id := files.Identity(path); id != "" {
		t.Errorf("a missing file has %q", id)
	}
	if err := os.WriteFile(path, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id := files.Identity(path); id != "" {
		t.Errorf("a new file has %q", id)
	}
	self, again, other := files.Identity("/etc/passwd"), files.Identity("/etc/passwd"), files.Identity("/bin/sh")
	if self == "" || self != again || self == other || other == "" {
		t.Errorf("older files have %q, %q and %q", self, again, other)
	}
}
