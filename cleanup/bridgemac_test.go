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
)

// TestRootMACOfABridge: the reference plugin bridge pins the MAC of its first port, which is that of the first attachment. The results of
// all later ones have the bridge with it.
func TestRootMACOfABridge(t *testing.T) {
	roottest.Require(t)
	runtime.LockOSThread() // the thread ends with the test
	if _, err := netns.New(); err != nil {
		t.Fatal(err)
	}
	mac, err := net.ParseMAC("02:00:00:00:00:01")
	if err != nil {
		t.Fatal(err)
	}
	attrs, bridge := netlink.NewLinkAttrs(), netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = "veth0000000a", mac
	bridge.Name, bridge.HardwareAddr = "cni0", mac
	for _, link := range []netlink.Link{&netlink.Bridge{LinkAttrs: bridge}, &netlink.Veth{LinkAttrs: attrs, PeerName: "peer"}} {
		if err := netlink.LinkAdd(link); err != nil {
			t.Fatal(err)
		}
	}
	a := leftover(`{"type": "bridge"}`).Suspects[0].Attachment
	a.Result = []byte(`{"cniVersion": "1.0.0", "interfaces": [{"name": "cni0", "mac": "02:00:00:00:00:01"}, {"name": "veth0000000b", "mac": "02:00:00:00:00:02"}]}`)
	if err := (&Cleaner{CacheDir: t.TempDir()}).Left(t.Context(), a, "bridge"); err != nil {
		t.Errorf("after the DEL of the second attachment: %v", err)
	}
}
