// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// TestNetworkDirs: directories are on record once, also for a user who only reads, and by their whole paths.
func TestNetworkDirs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	store, err := Open(dir + "/state")
	if err != nil {
		t.Fatal(err)
	}
	for _, added := range []string{"/conf/a", "b", dir + "/b", "/conf/a"} {
		if err := store.Networks().AddDir(added); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Networks().AddDir("/conf/a\nb"); errdefs.Of(err) != errdefs.Refused {
		t.Errorf("a path of two lines: %v", err)
	}
	for path, want := range map[string][]string{dir + "/state": {"/conf/a", dir + "/b"}, dir + "/none": nil} {
		reader, err := OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := reader.Networks().Dirs(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
}
