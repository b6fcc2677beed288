// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package stream

import (
	"net/netip"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootCost: each load has a cost, by flows that connection tracking knows as established ones, and a connection that has ended is an error.
func TestRootCost(t *testing.T) {
	roottest.Require(t)
	sandbox.Run(t, "ip", "netns", "add", "loop")
	defer sandbox.Run(t, "ip", "netns", "del", "loop")
	sandbox.Run(t, "ip", "-n", "loop", "link", "set", "lo", "up")
	sandbox.Run(t, "ip", "netns", "exec", "loop", "nft", "add table inet t; add chain inet t in { type filter hook input priority 0; }; add rule inet t in ct state new counter")
	path := netns.DefaultDir + "/loop"
	f := NewFlows(t, path, path, netip.MustParseAddr("127.0.0.1"))
	defer f.Close()
	before := sandbox.Run(t, "ip", "netns", "exec", "loop", "nft", "list", "chain", "inet", "t", "in")
	for _, load := range []Load{Bulk, Packets, Exchange} {
		if cost, err := f.Cost(load, 10*time.Millisecond); err != nil || cost <= 0 {
			t.Errorf("%s: %v, %v", load, cost, err)
		}
	}
	if after := sandbox.Run(t, "ip", "netns", "exec", "loop", "nft", "list", "chain", "inet", "t", "in"); after != before {
		t.Errorf("packets are of new flows: before %s, after %s", before, after)
	}
	ended := NewFlows(t, path, path, netip.MustParseAddr("127.0.0.2"))
	ended.Close()
	if _, err := ended.Cost(Bulk, time.Millisecond); err == nil {
		t.Error("a connection that has ended has a cost")
	}
}
