// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"net/netip"
	"testing"
)

// TestCanBeBeside: IPv4 takes a second route with the same next hop, and IPv6 one with another only.
func TestCanBeBeside(t *testing.T) {
	for _, test := range []struct {
		prefix, before, now, device string
		want                        bool
	}{
		{"10.0.0.0/26", "192.0.2.1", "192.0.2.1", "eth0", true},
		{"10.0.0.0/26", "192.0.2.1", "192.0.2.2", "eth0", true},
		{"fd00::/122", "2001:db8::1", "2001:db8::1", "eth0", false},
		{"fd00::/122", "2001:db8::1", "2001:db8::2", "eth0", true},
		{"fd00::/122", "2001:db8::1", "2001:db8::1", "eth1", true},
	} {
		old := entry{prefix: netip.MustParsePrefix(test.prefix), via: netip.MustParseAddr(test.before), device: "eth0"}
		e := old
		e.via, e.device = netip.MustParseAddr(test.now), test.device
		if got := e.canBeBeside(old); got != test.want {
			t.Errorf("%s by %s on %s beside %s: %t, want %t", test.prefix, test.now, test.device, test.before, got, test.want)
		}
	}
}
