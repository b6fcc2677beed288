// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootKeepAdvertisedReadOnly: where settings are protected, as with ProtectKernelTunables=, a plugin does not switch forwarding on
// either, and attaches to networks that need no change.
func TestRootKeepAdvertisedReadOnly(t *testing.T) {
	roottest.Require(t)
	runtime.LockOSThread() // the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "uplink"
	for _, err := range []error{
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, ""),
		unix.Mount("", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""),
		netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := KeepAdvertised(); err != nil {
		t.Errorf("the attachment fails: %v", err)
	}
}
