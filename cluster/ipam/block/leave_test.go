// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// keeping is a store from which nothing can be deleted while err is not nil.
type keeping struct {
	ipam.Store
	err error
}

func (s *keeping) Delete(ctx context.Context, path string, index uint64) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.Delete(ctx, path, index)
}

// TestLeave: a host gives back all blocks, and forgets where it is reached; what the store did not
// take is given back the next time.
func TestLeave(t *testing.T) {
	store := &keeping{Store: &storetest.Fake{}}
	m := newMachine(t, store, nil, "")
	for range 2 {
		if _, err := claim(t, m.Leases, ipam.IPv4); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SetEndpoint(t.Context(), ipam.Endpoint{Address: netip.MustParseAddr("192.0.2.1")}); err != nil {
		t.Fatal(err)
	}
	m.age(t)
	if blocks, err := m.Leave(t.Context()); len(blocks) > 0 || !errors.Is(err, block.ErrObjection) {
		t.Errorf("before a copy can object: left %s, %v", blocks, err)
	}
	m.age(t)
	for _, test := range []struct {
		what string
		err  error
		want int
	}{{"the store refuses", ipam.ErrUnavailable, 0}, {"the store answers", nil, 2}, {"again", nil, 0}} {
		store.err = test.err
		blocks, err := m.Leave(t.Context())
		if len(blocks) != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: left %s, %v, want %d", test.what, blocks, err, test.want)
		}
		if _, err := os.Stat(filepath.Join(m.dir, "ipam/pools/lab/endpoint.json")); !os.IsNotExist(err) {
			t.Errorf("%s: the endpoint is left: %v", test.what, err)
		}
	}
	if listing, err := store.List(t.Context(), ipam.BlocksPrefix("lab"), 0); len(listing.Entries) > 0 || err != nil {
		t.Errorf("the store has %v, %v", listing.Entries, err)
	}
}

// TestLeaveTooEarly: a host that has just registered keeps its blocks, and says so.
func TestLeaveTooEarly(t *testing.T) {
	store := &storetest.Fake{}
	m := newMachine(t, store, nil, "")
	held := m.mustClaim(t, m.Leases)
	blocks, err := m.Leave(t.Context())
	if len(blocks) > 0 || !errors.Is(err, block.ErrObjection) {
		t.Errorf("left %s, %v", blocks, err)
	}
	if o, err := m.Overview(); err != nil || len(o.Blocks) != 1 || o.Blocks[0].Block != held || o.Blocks[0].State != block.Held {
		t.Errorf("it has %+v, %v", o, err)
	}
	if released, err := m.Release(t.Context(), 0, 0); len(released) > 0 || err != nil {
		t.Errorf("released %s, %v", released, err)
	}
	m.age(t)
	if blocks, err := m.Leave(t.Context()); len(blocks) > 0 || !errors.Is(err, block.ErrObjection) {
		t.Errorf("before a copy can object: left %s, %v", blocks, err)
	}
	m.age(t)
	if blocks, err := m.Leave(t.Context()); len(blocks) != 1 || err != nil {
		t.Errorf("later: left %s, %v", blocks, err)
	}
}
