// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/local"
)

// TestStale: an attachment is stale if the runtime does not list it, and all of its leases are
// old and in no namespace.
func TestStale(t *testing.T) {
	now := time.Now()
	four, six := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")
	a, b := ipam.Owner{ContainerID: "a", Interface: "eth0"}, ipam.Owner{ContainerID: "b", Interface: "eth0"}
	old, young := now.Add(-collectedAfter), now.Add(-collectedAfter+time.Nanosecond)
	for name, test := range map[string]struct {
		leases []local.Lease
		kept   map[ipam.Owner]bool
		used   map[netip.Addr]string
		want   []ipam.Owner
	}{
		"none":                {},
		"old":                 {leases: []local.Lease{{Address: four, Owner: a, Made: old}}, want: []ipam.Owner{a}},
		"old, of two":         {leases: []local.Lease{{Address: four, Owner: a, Made: old}, {Address: six, Owner: a, Made: old}}, want: []ipam.Owner{a}},
		"listed":              {leases: []local.Lease{{Address: four, Owner: a, Made: old}}, kept: map[ipam.Owner]bool{a: true}},
		"another interface":   {leases: []local.Lease{{Address: four, Owner: a, Made: old}}, kept: map[ipam.Owner]bool{{ContainerID: "a", Interface: "eth1"}: true}, want: []ipam.Owner{a}},
		"young":               {leases: []local.Lease{{Address: four, Owner: a, Made: young}}},
		"one of two young":    {leases: []local.Lease{{Address: four, Owner: a, Made: old}, {Address: six, Owner: a, Made: young}}},
		"in a namespace":      {leases: []local.Lease{{Address: four, Owner: a, Made: old}}, used: map[netip.Addr]string{four: "/run/netns/a"}},
		"one of two in one":   {leases: []local.Lease{{Address: four, Owner: a, Made: old}, {Address: six, Owner: a, Made: old}}, used: map[netip.Addr]string{six: "/run/netns/a"}},
		"beside one in use":   {leases: []local.Lease{{Address: four, Owner: a, Made: old}, {Address: six, Owner: b, Made: old}}, used: map[netip.Addr]string{six: "/run/netns/b"}, want: []ipam.Owner{a}},
		"another in use, too": {leases: []local.Lease{{Address: four, Owner: a, Made: old}}, used: map[netip.Addr]string{six: "/run/netns/x"}, want: []ipam.Owner{a}},
	} {
		kept := test.kept
		if kept == nil {
			kept = map[ipam.Owner]bool{}
		}
		if got := stale(test.leases, kept, test.used, now); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
