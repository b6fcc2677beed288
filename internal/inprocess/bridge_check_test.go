// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
)

// TestBridgeInASandbox: an interface inside with the name of the bridge is taken for it, and CHECK
// fails, as with the reference plugin.
func TestBridgeInASandbox(t *testing.T) {
	result := &current.Result{Interfaces: []*current.Interface{{Name: "br0"}, {Name: "veth1"}, {Name: "br0", Sandbox: "/run/netns/a"}}}
	if _, err := (&bridgeConfig{Bridge: "br0"}).checkBridge(result); err == nil || !strings.Contains(err.Error(), "br0 should not be in sandbox") {
		t.Errorf("got the error %v", err)
	}
}
