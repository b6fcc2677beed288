// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestPublished: an attachment that publishes gets what it requests, and no address of a block beside that.
func TestPublished(t *testing.T) {
	h := newHost(t, newStore(), 0, `"ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/112"}], "reserved": ["10.0.0.16/30"]`)
	for range 2 {
		got, err := h.Add(t.Context(), ipam.Request{Owner: owner("a"), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.17")}, Published: true})
		if err != nil || len(got) != 1 || got[0].Address.Addr().String() != "10.0.0.17" {
			t.Errorf("got %v, %v", got, err)
		}
	}
	overview, err := h.Show(t.Context())
	if err != nil || len(overview.Addresses) != 1 || !overview.Addresses[0].Published || len(overview.Blocks) != 0 {
		t.Errorf("the store has %+v, %v", overview, err)
	}
}
