// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestStackedMaster: the master in the namespace may be a macvlan itself. The kernel then says
// that the link of the new interface is that of its master, which is on the host.
func TestStackedMaster(t *testing.T) {
	if !sandbox.PluginsHave(t, sandbox.InnerMaster) {
		return // TestInnerMaster
	}
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/60-inner.conflist", `{"cniVersion": "1.0.0", "name": "inner", "plugins": [
		{"type": "macvlan", "master": "eth0", "linkInContainer": true}]}`)
	h.attach("m1", "--primary", "vlan", "--networks", "inner@net1")
	h.must("detach", "m1")
}
