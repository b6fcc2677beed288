// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"net/netip"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestReclaimReserved: the reserved addresses of a node that is gone are reclaimed with its blocks, though its entry is
// deleted with these.
func TestReclaimReserved(t *testing.T) {
	store := newStore()
	config := `"reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/28"}]`
	a, b := newHost(t, store, 0, config), newHost(t, store, 1, config)
	a.requireAdd("a", "10.0.0.2")
	if got := a.request(ipam.Request{Owner: owner("b"), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}}); got != "10.0.0.5" {
		t.Fatal(got)
	}
	b.options.Grace, b.options.Holder = time.Nanosecond, gone("node0")
	b.restart()
	var all []netip.Addr
	for i := range 6 {
		blocks, addresses, err := b.Reclaim(t.Context())
		b.requireNo(err)
		t.Log(i, blocks, addresses)
		all = append(all, addresses...)
		if i == 0 {
			b.age("silent", 23*time.Hour)
		}
		b.clock = b.clock.Add(time.Hour)
	}
	if len(all) != 1 {
		t.Errorf("reclaimed the addresses %v, want 10.0.0.5: the host was silent for 23 h", all)
	}
}
