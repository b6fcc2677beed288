// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
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

// TestTakenByACopy: what a copy of this host took before it was refused may be in use there.
func TestTakenByACopy(t *testing.T) {
	c := newCluster(t)
	original, copied := c.newHost(1), c.newHost(1)
	original.host.Boot, copied.host.Boot = "first", "second"
	copied.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	c.guard.foreign = "second"
	original.mustVerify()
	original.mustFail(allocation("b", "web", "10.0.0.17"), ipam.ErrExhausted, "delete the store's allocnet/ipam/1/test/a/0a000011")
	if state := c.stateOf(t, "10.0.0.17"); state != ipam.Held {
		t.Errorf("the address is %s", state)
	}
}

// TestGivenBackByATwin: what one of two resumed machines gives back is another host's, while the other machine's allocation
// still has it. That one takes nothing back from the new owner.
func TestGivenBackByATwin(t *testing.T) {
	c := newCluster(t)
	one, twin, other := c.newHost(1), c.newHost(1), c.newHost(2)
	one.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	twin.copyOf(one)
	twin.mustFree("a")
	c.pass(quiet)
	other.mustTake(allocation("b", "web", "10.0.0.17"), "10.0.0.17")
	one.mustVerify()
	one.mustFree("a")
	if entry := c.entryOf(t, "10.0.0.17"); entry.State != ipam.Held || entry.Owner.ContainerID != "b" {
		t.Errorf("the address is %s by %s", entry.State, entry.Owner.ContainerID)
	}
}

// TestOldRecordAfterBoot: a copy does not write what its disk says over what the original has
// written since.
func TestOldRecordAfterBoot(t *testing.T) {
	c := newCluster(t)
	original, copied := c.newHost(1), c.newHost(1)
	original.host.Boot, copied.host.Boot = "first", "second"
	original.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	copied.copyOf(original)
	original.mustFree("a")
	original.mustTake(allocation("b", "web", "10.0.0.17"), "10.0.0.17")
	c.guard.isNew = true
	copied.mustVerify()
	if owner := c.entryOf(t, "10.0.0.17").Owner.ContainerID; owner != "b" {
		t.Errorf("the store says that %s has the address", owner)
	}
}

// TestAdopt: what an earlier state directory of this node had is given back, unless it says that it lives:
// two machines of one image have one node ID.
func TestAdopt(t *testing.T) {
	c := newCluster(t)
	other, h := c.newHost(1), c.newHost(2)
	h.host.NodeID = other.host.NodeID
	other.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	for _, answers := range []bool{true, false} {
		c.guard.answers = answers
		for range 3 {
			if _, err := h.Adopt(t.Context(), func(netip.Addr) (bool, error) { return false, nil }); err != nil {
				t.Fatal(err)
			}
			c.pass(adoptGrace)
		}
		if state, want := c.stateOf(t, "10.0.0.17"), map[bool]ipam.AddressState{true: ipam.Held, false: ipam.Free}[answers]; state != want {
			t.Errorf("what had the address says that it lives: %v: it is %s, want %s", answers, state, want)
		}
	}
}

// TestSetUpAgain: a container that is set up again has its address, also if the state directory was
// lost. In another boot it may be that of another machine with the node ID of this one.
func TestSetUpAgain(t *testing.T) {
	c := newCluster(t)
	before, h := c.newHost(1), c.newHost(2)
	before.host.Boot, h.host.Boot, h.host.NodeID = "first", "second", before.host.NodeID
	before.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	h.mustFail(allocation("a", "web", "10.0.0.17"), ipam.ErrExhausted, "container a on node")
	h.host.Boot = "first"
	h.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
}

// stateOf returns what the store says of an address.
func (c *fakeCluster) stateOf(t *testing.T, address string) ipam.AddressState {
	t.Helper()
	return c.entryOf(t, address).State
}

func (c *fakeCluster) entryOf(t *testing.T, address string) ipam.AddressContent {
	t.Helper()
	entry, err := c.store.Get(t.Context(), ipam.AddressPath("test", netip.MustParseAddr(address)))
	if err != nil {
		t.Fatal(err)
	}
	content, err := ipam.DecodeAddress(entry.Content, c.config)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// mustVerify verifies without an error.
func (h *fakeHost) mustVerify() {
	h.Helper()
	if _, err := h.Verify(h.Context()); err != nil {
		h.Error(err)
	}
}

// copyOf makes the disk that of another host.
func (h *fakeHost) copyOf(original *fakeHost) {
	h.Helper()
	to, from := string(h.records.(directory)), string(original.records.(directory))
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		h.Fatal(err)
	}
	h.leases.owners = maps.Clone(original.leases.owners)
}

// TestFreedAfterRestore: a host that gives back what it had before the store was restored on new servers
// leaves the entry alone that another host has made with the index of before.
func TestFreedAfterRestore(t *testing.T) {
	c := newCluster(t)
	h, other := c.newHost(1), c.newHost(2)
	h.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	c.store = &storetest.Fake{}
	other.mustTake(allocation("b", "db", "10.0.0.17"), "10.0.0.17")
	h.mustFree("a")
	if owner := c.entryOf(t, "10.0.0.17").Owner.ContainerID; owner != "b" {
		t.Errorf("the store says that %q has the address", owner)
	}
}

// TestTakenAfterRestore: nor does a host take an address that it remembers to be free at that index.
func TestTakenAfterRestore(t *testing.T) {
	c := newCluster(t)
	h, other := c.newHost(1), c.newHost(2)
	h.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	h.mustFree("a")
	c.store = &storetest.Fake{}
	other.mustTake(allocation("b", "db", "10.0.0.17"), "10.0.0.17")
	other.host.NodeName = "renamed"
	other.mustVerify() // the second change, as that of h was
	h.mustFail(allocation("c", "web", "10.0.0.17"), ipam.ErrInvalid, `job "db" has it`)
}

// TestVerifiedAfterRestore: a host whose record has the index that another host's entry has since then, knows that
// it has lost the address, also if it has verified before.
func TestVerifiedAfterRestore(t *testing.T) {
	c := newCluster(t)
	h, other := c.newHost(1), c.newHost(2)
	h.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	h.mustVerify()
	h.Distrust()
	c.store = &storetest.Fake{}
	other.mustTake(allocation("b", "db", "10.0.0.17"), "10.0.0.17")
	if v, err := h.Verify(t.Context()); len(v.Lost) != 1 || err != nil {
		t.Errorf("found %+v, %v", v, err)
	}
}

// TestTakenBackAfterRestore: what is remembered of a host that is gone, or of this one, is no reason to take an address
// from the host that has it since the store was restored.
func TestTakenBackAfterRestore(t *testing.T) {
	for name, takeBack := range map[string]func(h *fakeHost) error{
		"reclaim": func(h *fakeHost) error { _, err := h.Reclaim(h.Context()); return err },
		"release": func(h *fakeHost) error { _, err := h.ReleaseNode(h.Context(), "node2"); return err },
		"verify":  func(h *fakeHost) error { _, err := h.Verify(h.Context()); return err },
		"list, verify": func(h *fakeHost) error {
			_, e := h.list(h.Context())
			_, err := h.Verify(h.Context())
			return errors.Join(e, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			h, gone, other := c.newHost(1), c.newHost(2), c.newHost(3)
			c.holder.gone["node2"] = true
			if strings.Contains(name, "verify") {
				gone.host = h.host // what a killed process of h took
			}
			gone.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
			for range 2 { // it is remembered
				if _, err := h.Reclaim(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			c.pass(2 * time.Hour)
			h.Distrust()
			c.store = &storetest.Fake{}
			other.mustTake(allocation("b", "db", "10.0.0.17"), "10.0.0.17")
			if err := takeBack(h); err != nil {
				t.Error(err)
			}
			if e := c.entryOf(t, "10.0.0.17"); e.State != ipam.Held || e.Owner.ContainerID != "b" {
				t.Errorf("the entry is %+v", e)
			}
		})
	}
}
