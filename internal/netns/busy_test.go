// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootNotBusy: a namespace that is open can be unmounted by its owner, who does not detach it as
// Nomad does not, and stays usable.
func TestRootNotBusy(t *testing.T) {
	roottest.Require(t)
	path, err := netns.Create(netns.DefaultDir, "busy")
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(path)
	n, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := unix.Unmount(path, 0); err != nil {
		t.Errorf("unmount an open namespace: %v", err)
	}
	if err := n.Do(func() error { return nil }); err != nil {
		t.Errorf("after that: %v", err)
	}
}
