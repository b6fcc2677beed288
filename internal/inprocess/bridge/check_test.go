// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestBridgeInASandbox: an interface inside with the name of the bridge is taken for it, and CHECK
// fails, as with the reference plugin.
func TestBridgeInASandbox(t *testing.T) {
	result := &current.Result{Interfaces: []*current.Interface{{Name: "br0"}, {Name: "veth1"}, {Name: "br0", Sandbox: "/run/netns/a"}}}
	if _, err := (&config{Bridge: "br0"}).checkBridge(result); err == nil || !strings.Contains(err.Error(), "br0 should not be in sandbox") {
		t.Errorf("got the error %v", err)
	}
}

// TestPortIsGone: an interface of the host that ADD has made is missing, and CHECK says which.
func TestPortIsGone(t *testing.T) {
	result := &current.Result{Interfaces: []*current.Interface{{Name: "missing0"}}}
	if err := checkPort(result, 1, 2, 3); err == nil || !strings.Contains(err.Error(), "missing0 not found") {
		t.Errorf("got the error %v", err)
	}
}

// TestRootBridgeMAC: CHECK compares the MAC of the bridge with that of ADD, unless the result has none.
func TestRootBridgeMAC(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		attrs := netlink.LinkAttrs{Name: "br0", HardwareAddr: []byte{2, 0, 0, 0, 0, 1}}
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
			return err
		}
		for mac, fails := range map[string]bool{"": false, "02:00:00:00:00:01": false, "02:00:00:00:00:02": true} {
			result := &current.Result{Interfaces: []*current.Interface{{Name: "br0", Mac: mac}}}
			if _, err := (&config{Bridge: "br0"}).checkBridge(result); (err != nil) != fails {
				t.Errorf("MAC %q: %v", mac, err)
			}
		}
		return nil
	})
}
