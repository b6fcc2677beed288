// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// TestNamespace: what is at the recorded path is the allocation's only if the
// recorded boot and identity are its own.
func TestNamespace(t *testing.T) {
	boot, err := BootID()
	must(t, err)
	const exists = "/proc/self/ns/net"
	ns, err := netns.Open(exists)
	must(t, err)
	id := ns.ID()
	must(t, ns.Close())
	for name, test := range map[string]struct {
		allocation Allocation
		missing    bool
	}{
		"its own":                              {Allocation{Netns: exists, BootID: boot, NetnsID: id}, false},
		"before its identity was known":        {Allocation{Netns: exists, BootID: boot}, false},
		"another in its place":                 {Allocation{Netns: exists, BootID: boot, NetnsID: "other"}, true},
		"another, and the boot is not known":   {Allocation{Netns: exists, NetnsID: "other"}, true},
		"of an earlier boot":                   {Allocation{Netns: exists, BootID: "earlier", NetnsID: id}, true},
		"of an earlier boot, and not yet made": {Allocation{Netns: exists, BootID: "earlier"}, true},
		"of an earlier boot, without a path":   {Allocation{BootID: "earlier"}, true},
		"nothing is there":                     {Allocation{Netns: "/nowhere", BootID: boot, NetnsID: id}, true},
	} {
		ns, err := test.allocation.Namespace()
		if err == nil {
			must(t, ns.Close())
		}
		if errors.Is(err, netns.ErrMissing) != test.missing || err != nil && !test.missing {
			t.Errorf("%s: %v, want missing %t", name, err, test.missing)
		}
	}
}
