// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// TestNotRegular: a pipe in the place of a file of the state directory is refused at once, and a
// link is not followed.
func TestNotRegular(t *testing.T) {
	d := &directory{path: t.TempDir(), lockName: "store.lock"}
	for name, put := range map[string]func(path string) error{
		"pipe": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"link": func(path string) error { return os.Symlink("/etc/hostname", path) },
	} {
		for _, file := range []string{recordsFile, d.lockName} {
			path := filepath.Join(d.path, file)
			if err := errors.Join(os.RemoveAll(path), put(path)); err != nil {
				t.Fatal(err)
			}
		}
		if data, err := d.read(recordsFile); !errors.Is(err, files.ErrNotRegular) {
			t.Errorf("%s: read %q, %v", name, data, err)
		}
		if _, err := d.lock(t.Context()); !errors.Is(err, files.ErrNotRegular) {
			t.Errorf("%s: lock: %v", name, err)
		}
	}
}
