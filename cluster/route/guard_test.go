// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestGuard: the guard has the hosts as soon as they are known, and stays as it is while they are not. It
// goes with the device.
func TestGuard(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	b, c := to("10.60.1.0/26", "b", "192.0.2.2", macB), to("10.60.2.0/26", "c", "2001:db8::3", macC)
	table := start(t, f, p)
	open := f.guards["vx-net"]
	apply(t, table, p)
	closed := f.guards["vx-net"]
	apply(t, table, p, b, to("10.60.3.0/26", "b", "192.0.2.2", macB), c)
	two := f.guards["vx-net"]
	if open == "" || open == closed || closed == two {
		t.Errorf("without an answer %s, without other hosts %s, with two %s: want three", open, closed, two)
	}
	if again := apply(t, table, p, c, b); again.Replaced != 0 || f.guards["vx-net"] != two {
		t.Errorf("%d are replaced although the hosts are the same", again.Replaced)
	}
	if _, _, err := newTable(table.o, f).Device(p, local); err != nil || f.guards["vx-net"] != two {
		t.Errorf("after a restart: %v, %s", err, f.guards["vx-net"])
	}
	f.guards = map[string]string{}
	f.unguarded = unix.EPERM
	report := apply(t, table, p, b)
	if report.Unguarded == nil || !slices.ContainsFunc(report.Routes, func(r Route) bool { return r.State == Installed }) {
		t.Errorf("%+v, want the routes, and the error", report)
	}
	f.unguarded = nil
	apply(t, table, p, b)
	apply(t, table, testPool(ipam.ModeRouted), b)
	if len(f.guards) > 0 {
		t.Errorf("without a device: %v", f.guards)
	}
	apply(t, table, p, b)
	f.links = slices.DeleteFunc(f.links, func(l link) bool { return l.kind == "vxlan" }) // by another program
	if err := table.Remove(p); err != nil || len(f.guards) > 0 {
		t.Errorf("after Remove: %v, %v", err, f.guards)
	}
}

// TestCommentOfGuard: an agent that is started again finds the guard as it should be.
func TestCommentOfGuard(t *testing.T) {
	addresses := sourcesOf([]Target{to("10.60.1.0/26", "b", "192.0.2.2", macB), to("10.60.2.0/26", "c", "2001:db8::3", macC)})
	g := guard{"vx-net", "net", 4789, 7, "eth0", testPool(ipam.ModeVXLAN).Subnets, addresses}
	if got, want := g.comment(), "allocnet pool guard 3c0b41467154c7df"; got != want {
		t.Errorf("the comment is %q, in another process %q", got, want)
	}
}

// TestGuardOfAnnounced: a host whose address is on lo is reached by any interface, also by a veth.
func TestGuardOfAnnounced(t *testing.T) {
	for underlay, rules := range map[string]int{"eth0": 2 + len(kinds), "lo": 2} {
		g := guard{underlay: underlay, sources: sourcesOf(nil)}
		if got := g.table().Chains[2]; got.Name != "input" || len(got.Rules) != rules {
			t.Errorf("%s: %d rules of %s, want %d of input", underlay, len(got.Rules), got.Name, rules)
		}
	}
	for _, c := range (&guard{underlay: loopback}).table().Chains { // a flushed one is told from it
		if len(c.Rules) == 0 {
			t.Errorf("%s has no rules if the sources are not known", c.Name)
		}
	}
}
