// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/ipam"
)

// TestAfterBoot: what a machine held before its boot, it neither gives back nor takes as long as it
// may be the copy of another one, which has it.
func TestAfterBoot(t *testing.T) {
	c := newCluster(t)
	h := c.newHost(1)
	h.host.Boot = "first"
	h.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	h.host.Boot, c.guard.isNew = "second", true
	h.mustFree("a")
	h.mustFail(allocation("b", "web", "10.0.0.17"), ipam.ErrExhausted, "may be a copy")
	if state := c.stateOf(t, "10.0.0.17"); state != ipam.Held {
		t.Errorf("the address is %s", state)
	}
	c.guard.isNew = false
	c.pass(quiet)
	h.mustTake(allocation("b", "web", "10.0.0.17"), "10.0.0.17")
}

// TestFreedInThisBoot: what a machine has taken in its boot, it gives back at once.
func TestFreedInThisBoot(t *testing.T) {
	c := newCluster(t)
	c.guard.isNew = true
	h := c.newHost(1)
	h.mustTake(sticky("a", "web", "0"), "", ipam.IPv4)
	before := h.mustTake(sticky("a", "web", "0"), "", ipam.IPv4)
	h.mustFree("a")
	if state := c.stateOf(t, before); state != ipam.Free {
		t.Errorf("the address is %s", state)
	}
}

// stateOf returns what the store says of an address.
func (c *fakeCluster) stateOf(t *testing.T, address string) ipam.AddressState {
	t.Helper()
	entry, err := c.store.Get(t.Context(), ipam.AddressPath("test", netip.MustParseAddr(address)))
	if err != nil {
		t.Fatal(err)
	}
	content, err := ipam.DecodeAddress(entry.Content, c.config)
	if err != nil {
		t.Fatal(err)
	}
	return content.State
}
