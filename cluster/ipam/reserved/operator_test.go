// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestReserve: an address that an operator keeps for a job is given to no other, also after it
// was used; unreserved, nothing of it is left.
func TestReserve(t *testing.T) {
	c := newCluster(t)
	h, address := c.newHost(1), netip.MustParseAddr("10.0.0.17")
	web := ipam.Job{Namespace: "default", Job: "web"}
	if err := h.Reserve(t.Context(), address, web); err != nil {
		t.Fatal(err)
	}
	if err := h.Reserve(t.Context(), address, ipam.Job{Namespace: "default", Job: "db"}); !errors.Is(err, ipam.ErrInvalid) {
		t.Errorf("another job: %v", err)
	}
	if err := h.Reserve(t.Context(), netip.MustParseAddr("10.0.0.99"), web); !errors.Is(err, ipam.ErrInvalid) {
		t.Errorf("outside the reserved ranges: %v", err)
	}
	for range 2 {
		h.mustFail(allocation("b", "db", "10.0.0.17"), ipam.ErrInvalid, `kept for job "web"`)
		h.mustTake(sticky("a", "web", "0"), "10.0.0.17", 4) // what is reserved comes first
		h.mustFree("a")
	}
	if got, want := c.dump(), "10.0.0.17 free web/0"; got != want {
		t.Errorf("the store has %q, want %q", got, want)
	}
	if err := h.Unreserve(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	c.newHost(2).mustFail(allocation("b", "db", "10.0.0.17"), ipam.ErrExhausted, "a moment ago") // its interface may be there
	c.pass(quiet)
	if err := errors.Join(h.Unreserve(t.Context(), address), h.Unreserve(t.Context(), address)); err != nil || c.dump() != "" {
		t.Errorf("the store has %q, error %v", c.dump(), err)
	}
}

// TestUnreserveHeld: the allocation keeps the address until it ends, and then it is kept for none.
func TestUnreserveHeld(t *testing.T) {
	c := newCluster(t)
	h := c.newHost(1)
	address := netip.MustParseAddr(h.mustTake(sticky("a", "web", "0"), "", 4))
	if err := h.Unreserve(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	if got, want := c.dump(), address.String()+" held web/ a"; got != want {
		t.Errorf("the store has %q, want %q", got, want)
	}
	h.mustFree("a")
	if got, want := c.dump(), address.String()+" free /"; got != want {
		t.Errorf("the store has %q, want %q", got, want)
	}
}

// TestLimit: a job has no more addresses than the limit, those that are kept for it included.
func TestLimit(t *testing.T) {
	c := newCluster(t, `, "maxReservedPerJob": 2`)
	h := c.newHost(1)
	first := h.mustTake(sticky("a", "web", "0"), "", 4)
	h.mustTake(sticky("b", "web", "1"), "", 4)
	h.mustFree("a")
	h.mustFail(sticky("c", "web", "2"), ipam.ErrInvalid, "maxReservedPerJob is 2", 4)
	h.mustTake(sticky("d", "web", "0"), first, 4)
	h.mustTake(sticky("e", "db", "0"), "", 4)
}

// TestTakeover: an address of another host is taken over only when Nomad says that its
// allocation has ended, or when its node is gone for the grace.
func TestTakeover(t *testing.T) {
	c := newCluster(t)
	one, two := c.newHost(1), c.newHost(2)
	address := one.mustTake(sticky("a", "web", "0"), "", 4)
	c.holder.err = errors.New("no leader")
	two.mustFail(sticky("b", "web", "0"), ipam.ErrExhausted, "no leader", 4)
	c.holder.err, c.holder.ended["a"] = nil, c.time
	two.mustFail(sticky("b", "web", "0"), ipam.ErrExhausted, "for 5s", 4)
	c.pass(quiet)
	two.mustTake(sticky("b", "web", "0"), address, 4)
	one.mustFree("a") // too late to take anything from b
	c.holder.gone["node2"] = true
	one.mustFail(sticky("d", "web", "0"), ipam.ErrExhausted, "neither complete nor failed", 4)
	c.pass(time.Hour)
	one.mustTake(sticky("d", "web", "0"), address, 4)
}

// TestSameContainer: two interfaces of a container do not have one address.
func TestSameContainer(t *testing.T) {
	h := newCluster(t).newHost(1)
	h.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	second := allocation("a", "web", "10.0.0.17")
	second.Owner.Interface = "eth1"
	h.mustFail(second, ipam.ErrInvalid, "interface eth0 of the same container has it")
}

// TestSameAllocation: further interfaces of an allocation, whose container IDs differ, do not wait
// for the address of the first.
func TestSameAllocation(t *testing.T) {
	h := newCluster(t).newHost(1)
	h.mustTake(sticky("a", "web", "0"), "", 4)
	second := sticky("a", "web", "0")
	second.Owner = ipam.Owner{ContainerID: "a.allocnet.net1", Interface: "net1"}
	h.mustFail(second, ipam.ErrInvalid, "interface eth0 of the same allocation has it", 4)
}

// TestClone: a host with the identity of another takes nothing.
func TestClone(t *testing.T) {
	c := newCluster(t)
	c.guard.err = ipam.ErrTwin
	c.newHost(1).mustFail(allocation("a", "web", "10.0.0.17"), ipam.ErrTwin, "")
}

// TestStoreDown: DEL does not need the store; what it could not say is said later.
func TestStoreDown(t *testing.T) {
	c := newCluster(t)
	h := c.newHost(1)
	h.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	h.down = ipam.ErrUnavailable
	h.mustFree("a")
	h.mustHaveRecords(1)
	h.mustFail(allocation("b", "web", "10.0.0.18"), ipam.ErrUnavailable, "")
	h.down = nil
	if err := h.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.mustHaveRecords(0)
	if got, want := c.dump(), "10.0.0.17 free /"; got != want {
		t.Errorf("the store has %q, want %q", got, want)
	}
}
