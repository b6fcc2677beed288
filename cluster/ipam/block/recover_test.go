// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// TestRecover: a block that only namespaces of the host know is not claimed by anyone, and not
// used by this host, until it is unused.
func TestRecover(t *testing.T) {
	m := &storetest.Fake{}
	host, other := testHost(t, m, "a"), testHost(t, m, "b")
	used := func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.91.0.70"), netip.MustParseAddr("10.91.0.71"), netip.MustParseAddr("10.99.0.1")}, nil
	}
	if got, err := host.Recover(t.Context(), false, used); err != nil || got != nil {
		t.Errorf("in a store that was not restored: %v, %v", got, err)
	}
	got, err := host.Recover(t.Context(), true, used)
	if err != nil || len(got) != 1 || got[0].String() != "10.91.0.64/26" {
		t.Fatalf("recovered %v, %v", got, err)
	}
	if again, err := host.Recover(t.Context(), true, used); err != nil || again != nil {
		t.Errorf("again: %v, %v", again, err)
	}
	var claimed []ipam.Block
	for {
		b, err := claim(t, other, ipam.IPv4)
		if errors.Is(err, ipam.ErrExhausted) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		claimed = append(claimed, b)
	}
	if len(claimed) != 3 || slices.Contains(claimed, got[0]) {
		t.Errorf("the other host has claimed %v", claimed)
	}
	if b, err := claim(t, host, ipam.IPv4); !errors.Is(err, ipam.ErrExhausted) {
		t.Errorf("the host has claimed %v, %v", b, err)
	}
	overview, err := host.Overview()
	if err != nil || len(overview.Open()) != 0 {
		t.Errorf("the host uses %v, %v", overview.Open(), err)
	}
}

// TestRecoverOfOwnBlocks: blocks that the host has are not another instance's.
func TestRecoverOfOwnBlocks(t *testing.T) {
	m := &storetest.Fake{}
	host := testHost(t, m, "a")
	b, err := claim(t, host, ipam.IPv4)
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no namespaces")
	if _, err := host.Recover(t.Context(), true, func() ([]netip.Addr, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	got, err := host.Recover(t.Context(), true, func() ([]netip.Addr, error) { return []netip.Addr{b.Addr().Next()}, nil })
	if err != nil || got != nil {
		t.Errorf("recovered %v, %v", got, err)
	}
}

// TestRecoverNothing: what is not given out from blocks is no reason to claim one, nor are
// addresses by a configuration that others do not have, or of a host that cannot adopt.
func TestRecoverNothing(t *testing.T) {
	used := func(text string) func() ([]netip.Addr, error) {
		return func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr(text)}, nil }
	}
	m := &storetest.Fake{}
	if got, err := testHost(t, m, "a").Recover(t.Context(), true, used("10.91.0.1")); err != nil || got != nil { // the gateway
		t.Errorf("of an address that no block gives out: %v, %v", got, err)
	}
	if got, err := testNode(t, m, "b", "").Recover(t.Context(), true, used("10.91.0.70")); err != nil || got != nil {
		t.Errorf("without a node: %v, %v", got, err)
	}
	if _, err := claim(t, testHost(t, m, "c"), ipam.IPv4); err != nil {
		t.Fatal(err)
	}
	other := newMachine(t, m, nil, "")
	connect := other.Connect
	other.Connect = func() (ipam.Store, ipam.Host, error) {
		s, h, err := connect()
		h.NodeID = "node-d"
		return s, h, err
	}
	other.configure(t, `"ranges": [{"subnet": "10.91.0.0/24"}], "blockSize": {"4": 27}, "stateDir": "`+other.dir+`"`)
	before, err := m.List(t.Context(), ipam.BlocksPrefix("lab"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"10.91.0.70", "10.91.0.130", "10.91.0.200"} {
		if got, err := other.Recover(t.Context(), true, used(address)); got != nil || err != nil && !errors.Is(err, ipam.ErrMismatch) {
			t.Errorf("with another block size: %v, %v", got, err)
		}
	}
	if after, err := m.List(t.Context(), ipam.BlocksPrefix("lab"), 0); err != nil || len(after.Entries) != len(before.Entries) {
		t.Errorf("there are %d blocks, %v, want %d", len(after.Entries), err, len(before.Entries))
	}
}

// TestClaimable says what Claim would.
func TestClaimable(t *testing.T) {
	m := &storetest.Fake{}
	host := newMachine(t, m, nil, "")
	keys := `"ranges": [{"subnet": "10.91.0.0/24"}], "maxBlocks": 1, "stateDir": "` + host.dir + `"`
	host.configure(t, keys)
	if err := host.Claimable(t.Context(), ipam.IPv4); err != nil {
		t.Errorf("in an empty store: %v", err)
	}
	if _, err := claim(t, host.Leases, ipam.IPv4); err != nil {
		t.Fatal(err)
	}
	if err := host.Claimable(t.Context(), ipam.IPv4); !errors.Is(err, ipam.ErrExhausted) {
		t.Errorf("at maxBlocks: %v", err)
	}
	other := newMachine(t, m, nil, "")
	other.configure(t, `"ranges": [{"subnet": "10.92.0.0/24"}], "stateDir": "`+other.dir+`"`)
	if err := other.Claimable(t.Context(), ipam.IPv4); !errors.Is(err, ipam.ErrMismatch) {
		t.Errorf("with another configuration: %v", err)
	}
}

// TestRecoverAgain: what was recovered, or was in the store then, and vanishes with a restore that does not show by the
// index, is recovered.
func TestRecoverAgain(t *testing.T) {
	for _, was := range []bool{false, true} {
		m := &storetest.Fake{}
		host := testHost(t, m, "a")
		b, err := claim(t, testHost(t, m, "b"), ipam.IPv4)
		path := ipam.BlockPath("lab", b)
		used := func() ([]netip.Addr, error) { return []netip.Addr{b.Addr().Next().Next()}, nil }
		vanish := func() {
			t.Helper()
			entry, err := m.Get(t.Context(), path)
			if err := errors.Join(err, m.Delete(t.Context(), path, entry.Index), host.Verify(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		if !was {
			vanish()
		}
		if got, errRecover := host.Recover(t.Context(), true, used); err != nil || errRecover != nil || (len(got) == 0) != was {
			t.Fatalf("recovered %v, %v, %v", got, err, errRecover)
		}
		vanish()
		if again, err := host.Recover(t.Context(), false, used); err != nil || len(again) != 1 {
			t.Errorf("again: %v, %v", again, err)
		}
	}
}
