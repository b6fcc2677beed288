// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ownedBy is a directory of a user.
type ownedBy struct {
	fs.FileInfo
	user uint32
}

func (o ownedBy) Sys() any { return &syscall.Stat_t{Uid: o.user} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOwnerOfADirectory(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	info, err := os.Stat(dir)
	must(t, err)
	for user, want := range map[uint32]bool{0: true, uint32(os.Geteuid()): true, 12345: false} {
		if err := CheckPrivate(dir, ownedBy{info, user}); (err == nil) != want || err != nil && !strings.Contains(err.Error(), dir+" belongs to user 12345") {
			t.Errorf("of user %d: %v, want it to be taken: %t", user, err, want)
		}
	}
}

func TestTree(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"private":       {func(string) error { return nil }, ""},
		"missing":       {func(dir string) error { return os.RemoveAll(dir) }, ""},
		"missing below": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "a")) }, ""},
		"a link to it": {func(dir string) error {
			must(t, os.Rename(dir, dir+"2"))
			return os.Symlink(dir+"2", dir)
		}, ""},
		"open to all":     {func(dir string) error { return os.Chmod(dir, 0o777) }, "has mode 0777"},
		"open to a group": {func(dir string) error { return os.Chmod(filepath.Join(dir, "a", "b"), 0o770) }, "a/b has mode 0770"},
		"a link below": {func(dir string) error {
			must(t, os.RemoveAll(filepath.Join(dir, "a")))
			return os.Symlink(t.TempDir(), filepath.Join(dir, "a"))
		}, "a is not a directory"},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
		must(t, test.spoil(dir))
		if err := CheckPrivateTree(dir, "a", "b"); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
