// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
)

func TestContainerID(t *testing.T) {
	for iface, want := range map[string]string{
		"net1":            "web.allocnet.net1",
		"data-0":          "web.allocnet.data-0",
		"eth0.100":        "web.allocnet.eth0_2e100",
		"a_b":             "web.allocnet.a_5fb",
		".allocnet.":      "web.allocnet._2eallocnet_2e",
		"\xff":            "web.allocnet._ff",
		"allocnet":        "web.allocnet.allocnet",
		"fifteen.bytes.x": "web.allocnet.fifteen_2ebytes_2ex",
	} {
		if got := ContainerID("web", iface); got != want {
			t.Errorf("%q has %q, want %q", iface, got, want)
		}
	}
}

// FuzzContainerID: the allocation can be read from a container ID without doubt,
// and different attachments have different ones.
func FuzzContainerID(f *testing.F) {
	f.Add("web", "net1", "web", "net2")
	f.Add("web", "a_5f", "web", "a_")
	f.Add("x.allocnet", "eth0", "x", "allocnet.eth0")
	f.Add("web", "eth0", "web.allocnet", "eth0")
	f.Fuzz(func(t *testing.T, id, iface, other, otherIface string) {
		if ValidateID(id) != nil || ValidateID(other) != nil {
			return
		}
		derived := ContainerID(id, iface)
		if got := AllocationOf(derived); got != id {
			t.Errorf("%q is of allocation %q, want %q", derived, got, id)
		}
		if AllocationOf(id) != id || derived == other {
			t.Errorf("the allocation ID %q looks like a container ID of an attachment", id)
		}
		if err := ValidateContainerID(derived); err != nil && len(derived) <= 128 {
			t.Errorf("%q, %q: %v", id, iface, err)
		}
		if (id != other || iface != otherIface) && derived == ContainerID(other, otherIface) {
			t.Errorf("%q of %q and %q of %q have the same container ID %q", iface, id, otherIface, other, derived)
		}
	})
}

func TestInvalidContainerIDs(t *testing.T) {
	for _, id := range []string{"", ".allocnet.net1", "a.allocnet.b.allocnet.c", "a/b", "a.allocnet." + strings.Repeat("n", 128)} {
		if err := ValidateContainerID(id); errdefs.Of(err) != errdefs.Refused {
			t.Errorf("%q: %v, want it refused", id, err)
		}
	}
}
