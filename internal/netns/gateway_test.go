// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootGatewayMACs: of the neighbours those count that are gateways, of a default route or of a network.
func TestRootGatewayMACs(t *testing.T) {
	roottest.Require(t)
	ip(t, "link add gateways type bridge")
	t.Cleanup(func() { ip(t, "link del gateways") })
	ip(t, "link set gateways up")
	ip(t, "address add 192.0.2.99/24 dev gateways")
	ip(t, "route add default via 192.0.2.1 metric 4711")
	for i := 1; i <= 4; i++ {
		ip(t, fmt.Sprintf("neigh add 192.0.2.%d lladdr 02:00:00:00:00:0%d dev gateways nud permanent", i, i))
	}
	want := map[string]netip.Addr{"02:00:00:00:00:01": netip.MustParseAddr("192.0.2.1"), "02:00:00:00:00:03": netip.MustParseAddr("192.0.2.3")}
	got, err := netns.GatewayMACs([]netip.Addr{netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("192.0.2.9")})
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
