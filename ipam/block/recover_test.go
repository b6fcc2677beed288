// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/ipam"
	"github.com/allocnet/allocnet/ipam/storetest"
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
