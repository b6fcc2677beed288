// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package peers_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/allocnet/allocnet/ipam"
	"github.com/allocnet/allocnet/ipam/peers"
	"github.com/allocnet/allocnet/ipam/storetest"
)

// config has 16 blocks of each family.
func config(t testing.TB) *ipam.Config {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"type": "allocnet-ipam", "pool": "p", "blockSize": {"4": 28, "6": 124}, "ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/120"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func host(letter string) ipam.Host {
	return ipam.Host{Instance: strings.Repeat(letter, 32), NodeID: "node-" + letter, NodeName: "name-" + letter, Boot: "boot-" + letter}
}

func endpoint(address string) ipam.Endpoint {
	return ipam.Endpoint{Address: netip.MustParseAddr(address), MAC: "02:00:5e:00:53:01"}
}

// content is what a host writes of a block.
func content(block string, h ipam.Host, e ipam.Endpoint) ipam.BlockContent {
	return ipam.BlockContent{Pool: "p", PoolHash: "0123456789abcdef", Block: netip.MustParsePrefix(block), Host: h, ClaimID: "c", Endpoint: e}
}

func put(t testing.TB, store ipam.Store, path string, data []byte) uint64 {
	t.Helper()
	index, err := store.Create(t.Context(), path, data)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func putBlock(t testing.TB, store ipam.Store, c ipam.BlockContent) uint64 {
	t.Helper()
	return put(t, store, ipam.BlockPath("p", c.Block), ipam.Encode(c))
}

// open is the connection of a host to a store.
func open(store ipam.Store, h ipam.Host) func() (ipam.Store, ipam.Host, error) {
	return func() (ipam.Store, ipam.Host, error) { return store, h, nil }
}

var asText = cmp.Options{
	cmp.Transformer("prefix", netip.Prefix.String), cmp.Transformer("address", netip.Addr.String), cmpopts.EquateErrors(),
}

func TestBlocks(t *testing.T) {
	store, a, b := &storetest.Fake{}, host("a"), host("b")
	p := peers.New(peers.Options{Config: config(t), Open: open(store, a)})
	putBlock(t, store, content("10.0.0.32/28", a, ipam.Endpoint{}))
	remote := endpoint("192.0.2.2")
	six := putBlock(t, store, content("fd00::10/124", b, remote))
	four := putBlock(t, store, content("10.0.0.16/28", b, remote))
	got, err := p.Next(t.Context())
	want := peers.Blocks{
		Own: []ipam.Block{netip.MustParsePrefix("10.0.0.32/28")},
		Remote: []peers.Remote{
			{Block: netip.MustParsePrefix("10.0.0.16/28"), Host: b, Endpoint: remote, Index: four},
			{Block: netip.MustParsePrefix("fd00::10/124"), Host: b, Endpoint: remote, Index: six},
		},
	}
	if diff := cmp.Diff(want, got, asText); diff != "" || err != nil {
		t.Errorf("blocks: %v (-want +got):\n%s", err, diff)
	}
}
