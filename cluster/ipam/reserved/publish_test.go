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

// fakeLinks are the interfaces of a host in memory. One named "stuck" keeps its addresses.
type fakeLinks map[netip.Addr]string

func (l fakeLinks) Published() (map[netip.Addr]string, error) { return l, nil }

func (l fakeLinks) Unpublish(address netip.Addr) error {
	if l[address] == "stuck" {
		return errors.New("the interface keeps " + address.String())
	}
	delete(l, address)
	return nil
}

var floating = netip.MustParseAddr("10.0.0.17")

// publish takes the address for a container of the job web, and gives it to an interface.
func (h *fakeHost) publish(container string) {
	h.Helper()
	h.mustTake(published(container, "web"), floating.String())
	h.links[floating] = "eth0"
}

func published(container, job string) ipam.Request {
	r := allocation(container, job, floating.String())
	r.Published = true
	return r
}

func (h *fakeHost) verified() Verified {
	h.Helper()
	v, err := h.Verify(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	return v
}

// TestPublished: another host has the address as soon as the first one has removed it from its interface and given it back, in this
// order, and not because Nomad says that the allocation has ended.
func TestPublished(t *testing.T) {
	c := newCluster(t)
	one, two := c.newHost(1), c.newHost(2)
	one.publish("a")
	c.holder.ended["a"] = c.time
	c.pass(time.Hour)
	two.mustFail(published("b", "web"), ipam.ErrExhausted, `it is published on node "name1" for container a`)
	two.mustFail(published("b", "db"), ipam.ErrInvalid, `job "web" has it`)
	one.verified()
	if one.links[floating] == "" {
		t.Error("a verification removes it")
	}
	told := false
	one.before = func() { told = true; c.mustBeNowhere(one) }
	one.mustFree("a")
	if !told {
		t.Error("the store is not told")
	}
	two.publish("b")
	one.mustFail(published("a2", "web"), ipam.ErrExhausted, "published on node")
}

func (c *fakeCluster) mustBeNowhere(hosts ...*fakeHost) {
	c.Helper()
	for _, h := range hosts {
		if name := h.links[floating]; name != "" {
			c.Errorf("host %s has it on %s", h.host.NodeID, name)
		}
	}
}

// TestPublishedStays: what cannot be removed from the interface is given back to no one.
func TestPublishedStays(t *testing.T) {
	c := newCluster(t)
	one, two := c.newHost(1), c.newHost(2)
	one.publish("a")
	one.links[floating] = "stuck"
	if err := one.Free(t.Context(), attachment("a")); err == nil {
		t.Error("it is given back")
	}
	one.leases.Remove(t.Context(), floating, attachment("a"))
	if err := one.Finish(t.Context()); err == nil {
		t.Error("it is given back without a lease")
	}
	two.mustFail(published("b", "web"), ipam.ErrExhausted, "published on node")
	one.links[floating] = "eth0"
	if err := one.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.mustBeNowhere(one)
	one.mustHaveRecords(0)
	two.publish("b")
}

// TestPublishedElsewhere: a host that learns that another one has its address removes it, until it may have it again.
func TestPublishedElsewhere(t *testing.T) {
	c := newCluster(t)
	one, two := c.newHost(1), c.newHost(2)
	one.publish("a")
	if _, err := two.ReleaseNode(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	two.mustFail(published("b", "web"), ipam.ErrExhausted, "a moment ago")
	c.pass(quiet)
	two.publish("b")
	for range 2 { // also if it comes back: a process may have been about to publish it
		if v := one.verified(); len(v.Lost) != 1 {
			t.Errorf("lost: %v", v.Lost)
		}
		c.mustBeNowhere(one)
		one.links[floating] = "eth0"
	}
	delete(one.links, floating)
	if two.links[floating] != "eth0" {
		t.Error("the other host has lost it, too")
	}
	two.mustFree("b")
	if v := one.verified(); len(v.Restored) != 1 {
		t.Errorf("restored: %v", v.Restored)
	}
	two.mustFail(published("c", "web"), ipam.ErrExhausted, "published on node")
}

// TestPublishedWithoutRecord: an address of the pool that is on an interface without a record is removed unless the store says that this
// machine has it.
func TestPublishedWithoutRecord(t *testing.T) {
	c := newCluster(t)
	one, two := c.newHost(1), c.newHost(2)
	other := netip.MustParseAddr("10.0.0.99") // no reserved one
	one.links[floating], one.links[other] = "eth0", "eth0"
	one.verified()
	c.mustBeNowhere(one)
	two.publish("b")
	one.links[floating] = "eth0"
	one.verified()
	c.mustBeNowhere(one)
	if one.links[other] == "" {
		t.Error("an address that the pool does not have is removed")
	}
	again := c.newHost(2)
	again.host.Instance, again.links[floating] = "00000000000000000000000000000099", "eth0"
	again.verified()
	if again.links[floating] == "" {
		t.Error("what an earlier state directory of the host has is removed")
	}
}

// TestPublishedByAnother: DEL of an attachment that does not have the address leaves it to the one that has.
func TestPublishedByAnother(t *testing.T) {
	one := newCluster(t).newHost(1)
	one.publish("a")
	one.mustFail(published("b", "web"), ipam.ErrExhausted, "container a of the same job has it on this host")
	one.mustFree("b")
	if one.links[floating] != "eth0" {
		t.Error("it is removed")
	}
}
