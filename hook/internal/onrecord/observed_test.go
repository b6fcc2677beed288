// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// TestIsRenamed: what a task has renamed is known by its MAC or its address; what a task has made is not the attachment's.
func TestIsRenamed(t *testing.T) {
	a := state.Attachment{Interface: "eth0", Status: []byte(`{"mac": "02:00:00:00:00:01", "addresses": ["192.0.2.9/24"]}`)}
	seen, err := ReadStatus(a)
	if err != nil {
		t.Fatal(err)
	}
	own, other := []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24")}, []netip.Prefix{netip.MustParsePrefix("192.0.2.8/24")}
	for name, test := range map[string]struct {
		i    netns.Interface
		want bool
	}{
		"its MAC":                {netns.Interface{Name: "lan0", Kind: "macvlan", LinkOutside: true, MAC: "02:00:00:00:00:01"}, true},
		"its address":            {netns.Interface{Name: "lan0", Kind: "macvlan", LinkOutside: true, MAC: "02:00:00:00:00:02", Addresses: own}, true},
		"neither":                {netns.Interface{Name: "lan0", Kind: "macvlan", LinkOutside: true, MAC: "02:00:00:00:00:02", Addresses: other}, false},
		"its name":               {netns.Interface{Name: "eth0", Kind: "macvlan", LinkOutside: true, MAC: "02:00:00:00:00:01"}, false},
		"of the task":            {netns.Interface{Name: "lan0", Kind: "macvlan", MAC: "02:00:00:00:00:01", Addresses: own}, false},
		"a dummy":                {netns.Interface{Name: "lan0", Kind: "dummy", MAC: "02:00:00:00:00:01", Addresses: own}, false},
		"ipvlan by its address":  {netns.Interface{Name: "lan0", Kind: "ipvlan", LinkOutside: true, Addresses: own}, true},
		"ipvlan by the MAC only": {netns.Interface{Name: "lan0", Kind: "ipvlan", LinkOutside: true, MAC: "02:00:00:00:00:01"}, false},
		"vlan by its address":    {netns.Interface{Name: "lan0", Kind: "vlan", LinkOutside: true, Addresses: own}, true},
		"a pair":                 {netns.Interface{Name: "lan0", Kind: "veth", LinkOutside: true, MAC: "02:00:00:00:00:01", Addresses: own}, false},
	} {
		if got := seen.IsRenamed(a.Interface, test.i); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
