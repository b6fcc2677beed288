// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"net"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/state"
)

// TestRootLinkOfANeighbour: a plugin that gives all ends on the host one MAC has removed its own. The only other one is the
// neighbour's.
func TestRootLinkOfANeighbour(t *testing.T) {
	roottest.Require(t)
	runtime.LockOSThread() // the thread ends with the test
	if _, err := netns.New(); err != nil {
		t.Fatal(err)
	}
	mac, err := net.ParseMAC("ee:ee:ee:ee:ee:ee")
	if err != nil {
		t.Fatal(err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = "cali2", mac
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer2"}); err != nil {
		t.Fatal(err)
	}
	l := leftover(`{"type": "calico"}`)
	a := &l.Suspects[0].Attachment
	a.Result = []byte(`{"cniVersion": "1.0.0", "interfaces": [{"name": "cali1", "mac": "ee:ee:ee:ee:ee:ee"}]}`)
	cleaner := Cleaner{CacheDir: t.TempDir()}
	if err := cleaner.Left(t.Context(), *a, "calico"); err != nil {
		t.Errorf("after a DEL that succeeded: %v", err)
		l.Suspects[0].DelErr = err
		t.Logf("forced cleanup: %v", cleaner.Clean(t.Context(), []state.Leftover{l}))
	}
	if _, err := netlink.LinkByName("cali2"); err != nil {
		t.Errorf("the neighbour's link: %v", err)
	}
}
