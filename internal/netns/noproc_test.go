// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootWithoutProc: where /proc is not mounted, as in a chroot, a namespace is not taken for missing.
func TestRootWithoutProc(t *testing.T) {
	roottest.Require(t)
	path, err := Create(DefaultDir, "without-proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Remove(path) })
	if err := unix.Mount("tmpfs", "/proc", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	handle, err := openNamespace(path)
	if err := unix.Unmount("/proc", 0); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := handle.Close(); err != nil {
		t.Error(err)
	}
}
