// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestConcern: which events lead to a reconciliation.
func TestConcern(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeAuto)
	f.links = append(f.links, link{device: device{name: "eth1", up: true}, kind: "device", index: 3})
	f.hops = map[netip.Addr]hop{ip("198.51.100.3"): behindRouter, ip("192.0.2.2"): {device: "eth1"}}
	table := start(t, f, p)
	apply(t, table, p, to("10.60.1.0/26", "b", "192.0.2.2", macB), to("10.60.2.0/26", "c", "198.51.100.3", macC))
	own := f.link("vx-net").index
	single := func(text string) netip.Prefix { return netip.PrefixFrom(ip(text), ip(text).BitLen()) }
	for name, test := range map[string]struct {
		event
		want bool
	}{
		"lost":                        {event{}, true},
		"the device":                  {event{kind: linkEvent, index: own, name: "renamed"}, true},
		"another of its name":         {event{kind: linkEvent, index: 99, name: "vx-net"}, true},
		"the underlay":                {event{kind: linkEvent, index: 2, name: "eth0"}, true},
		"a next hop's interface":      {event{kind: linkEvent, index: 3, name: "eth1"}, true},
		"an allocation's interface":   {event{kind: linkEvent, index: 50, name: "veth1"}, false},
		"neighbour on the device":     {event{kind: neighbourEvent, index: own}, true},
		"neighbour on the underlay":   {event{kind: neighbourEvent, index: 2}, false},
		"own address":                 {event{kind: addressEvent, index: 50, prefix: single("192.0.2.1")}, true},
		"address of the underlay":     {event{kind: addressEvent, index: 2, prefix: single("192.0.2.9")}, true},
		"address in the pool":         {event{kind: addressEvent, index: 50, prefix: single("10.60.1.9")}, true},
		"the gateway":                 {event{kind: addressEvent, index: 50, prefix: single("10.60.0.1")}, false},
		"another address":             {event{kind: addressEvent, index: 50, prefix: single("203.0.113.1")}, false},
		"our route is gone":           {event{kind: routeEvent, prefix: cidr("10.60.1.0/26"), ours: true, gone: true}, true},
		"our subnet's is gone":        {event{kind: routeEvent, prefix: cidr("fd60::/112"), ours: true, gone: true}, true},
		"our route has come":          {event{kind: routeEvent, prefix: cidr("10.60.1.0/26"), ours: true}, false},
		"our route of another pool":   {event{kind: routeEvent, prefix: cidr("10.70.1.0/26"), ours: true, gone: true}, false},
		"a foreign route":             {event{kind: routeEvent, prefix: cidr("fd60::40/122")}, true},
		"a foreign route is gone":     {event{kind: routeEvent, prefix: cidr("10.60.3.0/26"), gone: true}, true},
		"the route to an allocation":  {event{kind: routeEvent, prefix: cidr("10.60.1.9/32")}, false},
		"a foreign route elsewhere":   {event{kind: routeEvent, prefix: cidr("203.0.113.0/24")}, false},
		"a foreign default route":     {event{kind: routeEvent, prefix: cidr("0.0.0.0/0"), gone: true}, false},
		"a network in the pool":       {event{kind: routeEvent, prefix: cidr("10.60.16.0/20")}, true},
		"a route around the subnet":   {event{kind: routeEvent, prefix: cidr("10.0.0.0/8")}, false},
		"a route in a reserved block": {event{kind: routeEvent, prefix: cidr("10.60.1.0/28")}, false},
	} {
		if got := len(table.concerned(test.event)) > 0; got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	if err := table.Remove(p); err != nil || len(table.concerned(event{})) > 0 {
		t.Errorf("without pools there is nothing to tell, %v", err)
	}
}

// TestCoalesced: many events are one value, the next one is another, and the end closes the channel.
func TestCoalesced(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeRouted)
	table := start(t, f, p)
	ctx, cancel := context.WithCancel(t.Context())
	changes, err := table.Changes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for range 100 {
			f.seen(event{})
		}
		<-changes
		select {
		case <-changes:
			t.Error("two values")
		default:
		}
	}
	cancel()
	if _, open := <-changes; open {
		t.Error("a value without an event")
	}
}

// TestChangedPools: an event is told of the pools that it concerns, also if it comes before an earlier one was
// taken.
func TestChangedPools(t *testing.T) {
	f, p, other := newFake(), testPool(ipam.ModeRouted), testPool(ipam.ModeRouted)
	other.Name, other.Subnets = "other", []netip.Prefix{cidr("10.61.0.0/16")}
	table := start(t, f, p)
	if _, _, err := table.Device(other, ipam.Endpoint{Address: ip("192.0.2.1")}); err != nil {
		t.Fatal(err)
	}
	changes, err := table.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours, others := event{kind: routeEvent, prefix: cidr("10.60.1.0/26")}, event{kind: routeEvent, prefix: cidr("10.61.1.0/26")}
	for _, test := range []struct {
		events []event
		want   []string
	}{
		{[]event{others}, []string{"other"}},
		{[]event{ours, ours}, []string{"net"}},
		{[]event{others, ours, others}, []string{"net", "other"}},
		{[]event{{kind: linkEvent, index: 2, name: "eth0"}}, []string{"net", "other"}},
		{[]event{{}}, []string{"net", "other"}},
	} {
		for _, e := range test.events {
			f.seen(e)
		}
		if got := <-changes; !slices.Equal(got, test.want) {
			t.Errorf("%+v: %s, want %s", test.events, got, test.want)
		}
	}
}

// TestMessages: messages become events. One that cannot be read counts as lost.
func TestMessages(t *testing.T) {
	link := make([]byte, unix.SizeofIfInfomsg)
	link[4] = 7
	var seen []event
	l := listener(func(e event) { seen = append(seen, e) }, func() {})
	l.Seen(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_DELLINK}, Data: link})
	l.Seen(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWRULE}, Data: link})
	l.Seen(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWADDR}, Data: link[:3]})
	l.Lost()
	if want := []event{{kind: linkEvent, index: 7}, {kind: lostEvent}, {kind: lostEvent}}; !slices.Equal(seen, want) {
		t.Errorf("%+v, want %+v", seen, want)
	}
}
