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

// inNamespaceWith moves the test into a network namespace of its own, which has these links.
func inNamespaceWith(t *testing.T, links ...netlink.Link) {
	t.Helper()
	runtime.LockOSThread() // the thread ends with the test
	if _, err := netns.New(); err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if err := netlink.LinkAdd(link); err != nil {
			t.Fatal(err)
		}
	}
}

func vethWith(t *testing.T, name, mac string) *netlink.Veth {
	t.Helper()
	address, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = name, address
	return &netlink.Veth{LinkAttrs: attrs, PeerName: "peer"}
}

// TestRootLinkOfANeighbour: a plugin that gives all ends on the host one MAC has removed its own. The only other one is the
// neighbour's.
func TestRootLinkOfANeighbour(t *testing.T) {
	roottest.Require(t)
	inNamespaceWith(t, vethWith(t, "cali2", "ee:ee:ee:ee:ee:ee"))
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

// TestRootMACOfABridge: the reference plugin bridge pins the MAC of its first port, which is that of the first attachment. The results of
// all later ones have the bridge with it.
func TestRootMACOfABridge(t *testing.T) {
	roottest.Require(t)
	end := vethWith(t, "veth0000000a", "02:00:00:00:00:01")
	bridge := netlink.NewLinkAttrs()
	bridge.Name, bridge.HardwareAddr = "cni0", end.HardwareAddr
	inNamespaceWith(t, &netlink.Bridge{LinkAttrs: bridge}, end)
	a := leftover(`{"type": "bridge"}`).Suspects[0].Attachment
	a.Result = []byte(`{"cniVersion": "1.0.0", "interfaces": [{"name": "cni0", "mac": "02:00:00:00:00:01"}, {"name": "veth0000000b", "mac": "02:00:00:00:00:02"}]}`)
	if err := (&Cleaner{CacheDir: t.TempDir()}).Left(t.Context(), a, "bridge"); err != nil {
		t.Errorf("after the DEL of the second attachment: %v", err)
	}
}
