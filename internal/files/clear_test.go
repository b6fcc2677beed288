// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClear: what is at a name goes in one step, whatever it is. A directory is not emptied: that may have no end.
func TestClear(t *testing.T) {
	dir := t.TempDir()
	path := func(elements ...string) string { return filepath.Join(append([]string{dir}, elements...)...) }
	made := errors.Join(
		os.WriteFile(path("file"), nil, 0o600), os.Symlink("kept", path("link")), os.Mkdir(path("empty"), 0o700),
		os.MkdirAll(path("full", "deep"), 0o700), os.WriteFile(path("kept"), nil, 0o600),
	)
	if made != nil {
		t.Fatal(made)
	}
	root := openRoot(t, dir)
	for _, name := range []string{"none", "file", "link", "empty", "full"} {
		if err := Clear(root, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	left := names(t, dir)
	if len(left) != 2 || !strings.HasPrefix(left[0], "full.") || left[1] != "kept" {
		t.Fatalf("left: %q, want the full directory under another name, and kept", left)
	}
	if _, err := os.Stat(path(left[0], "deep")); err != nil {
		t.Errorf("a directory was emptied: %v", err)
	}
	if err := Clear(root, "../file"); err == nil {
		t.Error("a name left the directory")
	}
}

// TestReplaceEmptiesNoDirectory: one that is in the way of a temporary file is as one of Clear.
func TestReplaceEmptiesNoDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, temporaryName("f", Options{}), "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "f"), nil, Options{}); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".f.new.*", "deep")); err != nil || len(left) != 1 {
		t.Errorf("left: %q, %v, want what was in the directory", left, err)
	}
}
