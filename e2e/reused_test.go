// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestDetachOfReusedInterface: an interface name that is free may be taken by a network
// whose master is another interface of the allocation. The allocation can be detached, also
// when its namespace is gone.
func TestDetachOfReusedInterface(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/90-inner.conf", `{"cniVersion": "1.0.0", "name": "inner", "type": "macvlan", "master": "net2", "linkInContainer": true, "mode": "bridge"}`)
	for id, remove := range map[string]func(){
		"r1": func() { h.must("detach", "r1") },
		"r2": func() {
			sandbox.Run(t, "ip", "netns", "delete", "r2")
			h.must("gc")
		},
		"r3": func() {
			sandbox.Run(t, "ip", "netns", "delete", "r3")
			h.must("cleanup", "r3", "--forget")
		},
	} {
		h.attach(id, "--primary", "storage", "--networks", "web@net1,web@net2")
		h.must("detach", id, "--interface", "net1")
		if sandbox.PluginsHave(t, sandbox.InnerMaster) {
			h.attach(id, "--networks", "inner@net1")
		} else {
			h.refuse(1, oldInnerMaster, "attach", id, "--primary=", "--networks", "inner@net1")
		}
		remove()
	}
}

// TestReusedInterfaceHasNoOldRoute: a route by an interface that is detached is no
// candidate for the default route, also if another attachment has its name by then.
func TestReusedInterfaceHasNoOldRoute(t *testing.T) {
	h := newHost(t)
	h.attach("r1", "--primary", "web")
	h.attach("r1", "--networks", `[{"name": "storage", "interface": "net1", "default-route": ["10.89.0.1"]}]`)
	h.attach("r1", "--networks", `[{"name": "web", "interface": "net2", "default-route": []}]`)
	h.must("detach", "r1", "--interface", "net1")
	h.attach("r1", "--networks", "peer@net1")
	h.must("detach", "r1", "--interface", "net2")
	if routes := sandbox.Run(t, "ip", "-n", "r1", "route", "show", "default"); routes != "default via 10.88.0.1 dev eth0 \n" {
		t.Errorf("the default routes are %q, want the one of eth0", routes)
	}
	h.must("detach", "r1")
}
