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

// TestPublishedOnly: a pool of published addresses alone claims no block ahead, gives back what it has, and is not exhausted when others have
// all blocks.
func TestPublishedOnly(t *testing.T) {
	store := newStore()
	const config = `"ranges": [{"subnet": "10.0.0.0/28"}], "reserved": ["10.0.0.8/30"], "blockSize": {"4": 28}`
	h, other := newHost(t, store, 0, config), newHost(t, store, 1, config)
	other.o.Config.PublishedOnly = true
	m, err := h.Maintain(t.Context())
	usage, errUsage := h.Usage(t.Context())
	if err != nil || errUsage != nil || len(m.Claimed) != 1 || h.spare(usage) != 1 {
		t.Fatalf("while attachments may have addresses: %+v, %v, %+v, %v", m, err, usage, errUsage)
	}
	h.o.Config.PublishedOnly = true
	if got := h.spare(usage); got != 0 {
		t.Errorf("%d blocks without addresses are kept, want none", got)
	}
	if m, err := other.Maintain(t.Context()); err != nil || len(m.Claimed) > 0 {
		t.Errorf("a host without blocks: %+v, %v, want none claimed", m, err)
	}
	if err := other.Status(t.Context()); err != nil {
		t.Errorf("its pool is not ready: %v", err)
	}
}
