// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package peers_test

import (
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/peers"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// FuzzBlocks: whatever another host has written, and wherever, it is a block of the pool with a
// valid endpoint that this host does not have, or invalid.
func FuzzBlocks(f *testing.F) {
	c, a, b := config(f), host("a"), host("b")
	good := content("10.0.0.16/28", b, endpoint("192.0.2.2"))
	f.Add(ipam.BlockPath("p", good.Block), ipam.Encode(good))
	f.Add(ipam.BlockPath("p", good.Block), ipam.Encode(content("10.0.0.0/28", b, good.Endpoint)))
	f.Add(ipam.BlockPath("p", good.Block), ipam.Encode(content("0.0.0.0/0", b, good.Endpoint)))
	f.Add(ipam.BlockPath("p", good.Block), ipam.Encode(content("10.0.0.16/28", b, ipam.Endpoint{})))
	f.Add(ipam.BlocksPrefix("p")+"0a000000-24", []byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, path string, data []byte) {
		store := &storetest.Fake{}
		putBlock(t, store, content("10.0.0.0/28", a, ipam.Endpoint{}))
		_, _ = store.Create(t.Context(), path, data) // it may be the own block
		got := mustNext(t, peers.New(peers.Options{Config: c, Open: open(store, a)}))
		listing, err := store.List(t.Context(), ipam.BlocksPrefix("p"), 0)
		if err != nil || len(got.Own)+len(got.Remote)+len(got.Invalid) != len(listing.Entries) || len(got.Own) == 0 {
			t.Fatalf("%+v of %v, %v", got, listing.Entries, err)
		}
		for _, r := range got.Remote {
			_, isSlot := c.Slots(ipam.FamilyOf(r.Block.Addr())).Index(r.Block)
			if !isSlot || r.Endpoint.Validate() != nil || r.Host.Instance == a.Instance {
				t.Errorf("a block of another host: %+v", r)
			}
			for _, own := range got.Own {
				if own.Overlaps(r.Block) {
					t.Errorf("%s of another host overlaps %s", r.Block, own)
				}
			}
		}
	})
}
