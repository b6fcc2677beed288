// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"testing"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/ui/uitest"
)

// TestRates: a rate needs two counts of one interface, that are neither at once nor far apart.
func TestRates(t *testing.T) {
	begin := time.Now()
	var r rates
	for _, step := range []struct {
		after    time.Duration
		iface    string
		received uint64
		want     float64 // -1: not known
	}{
		{0, "eth0", 1000, -1},
		{0, "eth1", 5000, -1},
		{10 * time.Millisecond, "eth0", 2000, -1}, // another browser
		{2 * time.Second, "eth0", 5000, 2000},
		{2100 * time.Millisecond, "eth0", 9000, 2000},
		{4 * time.Second, "eth0", 9000, 2000},
		{6 * time.Second, "eth0", 9000, 0},
		{8 * time.Second, "eth0", 100, -1}, // the interface was made again
		{10 * time.Second, "eth0", 300, 100},
		{10 * time.Second, "eth1", 5000, 0},
		{71 * time.Second, "eth0", 5000, -1},
	} {
		got := r.add("a", step.iface, allocation.Traffic{ReceivedBytes: step.received, SentBytes: 2 * step.received}, begin.Add(step.after))
		if (got == nil) != (step.want < 0) || got != nil && (got.Received != step.want || got.Sent != 2*step.want) {
			t.Errorf("%s after %s: %+v, want %v", step.iface, step.after, got, step.want)
		}
	}
	if len(r.last) != 1 {
		t.Errorf("%d interfaces are kept that no page shows", len(r.last)-1)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[float64]string{0: "0 B", 0.4: "0 B", 999: "999 B", 1000: "1.0 kB", 99_949: "99.9 kB", 99_951: "100 kB", 999_499: "999 kB", 999_500: "1.0 MB", 1.8e19: "18.0 EB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}

// TestTraffic: the page of an allocation shows what its interfaces have counted, and from the second time on the rate.
func TestTraffic(t *testing.T) {
	r := start(t)
	now := time.Now()
	r.agent.Fill(3, now)
	r.server.now = func() time.Time { return now }
	id := uitest.Allocations(3, now)[0].ID
	set := func(received uint64) {
		r.agent.Set(api.PathDetails, api.Details{Attachments: []allocation.Details{
			{Network: "web", Interface: "eth0", Traffic: &allocation.Traffic{ReceivedBytes: received, SentBytes: 7}}, {Network: "storage", Interface: "net1"},
		}})
	}
	set(1500)
	r.enter().requireText("allocations/"+id, "1.5 kB", "7 B", `data-every="5"`)
	now = now.Add(2 * time.Second)
	set(5500)
	r.requireText("allocations/"+id, "5.5 kB", "2.0 kB/s", "0 B/s")
	r.agent.Set(api.PathDetails, &api.Error{CNIVersion: "1.1.0", Code: 999, Msg: "disk full", Status: 500})
	r.requireText("allocations/"+id, `<div id="traffic">`, "disk full")
}
