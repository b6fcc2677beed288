// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// grow is the configuration of the next process, with an IPv6 range that the store says nothing
// of.
func (h *host) grow(store *testStore) {
	h.Helper()
	c := *h.options.Config
	more, err := ipam.Parse([]byte(`{"pool": "p", "ranges": [{"subnet": "fd00::/122"}]}`))
	if err != nil {
		h.Fatal(err)
	}
	c.Ranges = slices.Concat(c.Ranges, more.Ranges)
	h.options.Config = &c
	store.fail(ipam.ErrUnavailable)
	h.restart()
}

// requireLeases requires that an attachment has these addresses and no others.
func (h *host) requireLeases(id string, want ...netip.Addr) {
	h.Helper()
	if got, err := h.local.Of(h.Context(), owner(id)); err != nil || !slices.Equal(got, want) {
		h.Errorf("%s has %v, %v, want %v", id, got, err, want)
	}
}

// TestRepeatedAddFails: a call that fails gives back what it has made, and not what a running
// attachment had before, be it reserved or of a block.
func TestRepeatedAddFails(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, `"reserved": ["10.0.0.8/29"], "ranges": [{"subnet": "10.0.0.0/28"}]`)
	address := netip.MustParseAddr("10.0.0.9")
	requested := ipam.Request{Owner: owner("a"), Addresses: []netip.Addr{address}}
	if got := h.request(requested); got != "10.0.0.9" {
		t.Fatal(got)
	}
	h.requireAdd("b", "10.0.0.2")
	h.grow(store)
	for _, r := range []ipam.Request{requested, {Owner: owner("b")}} {
		if _, err := h.Add(t.Context(), r); !errors.Is(err, ipam.ErrExhausted) {
			t.Errorf("a call without an IPv6 address: %v", err)
		}
	}
	h.requireLeases("a", address)
	h.requireLeases("b", netip.MustParseAddr("10.0.0.2"))
	if held, err := h.reserved.Held(t.Context(), owner("a")); err != nil || !slices.Equal(held, requested.Addresses) {
		t.Errorf("a holds %v, %v", held, err)
	}
}

// TestRepeatedAddUnprobed: the same if the new address cannot be probed, or another host has it.
func TestRepeatedAddUnprobed(t *testing.T) {
	for name, probe := range map[string]func() (bool, error){
		"error": func() (bool, error) { return false, errors.New("no such link") },
		"taken": func() (bool, error) { return true, nil },
	} {
		store := newStore()
		h := newHost(t, store, 0, `"reserved": ["10.0.0.8/29"], "ranges": [{"subnet": "10.0.0.0/28"}]`)
		h.requireAdd("a", "10.0.0.2")
		h.grow(store)
		store.fail(nil)
		h.options.Probe = func(context.Context, netip.Addr) (bool, error) { return probe() }
		h.restart()
		if _, err := h.Add(t.Context(), ipam.Request{Owner: owner("a")}); err == nil {
			t.Errorf("%s: there is no error", name)
		}
		h.requireLeases("a", netip.MustParseAddr("10.0.0.2"))
	}
}

// TestFailedAddKeepsNothing: of several families, the one whose address was not in use is given
// back, too.
func TestFailedAddKeepsNothing(t *testing.T) {
	h := newHost(t, newStore(), 0, `"cooldown": "0s", "ranges": [{"subnet": "10.0.0.0/28"}, {"subnet": "fd00::/122"}]`)
	h.options.Probe = func(_ context.Context, a netip.Addr) (bool, error) { return a.Is4(), nil }
	h.restart()
	if _, err := h.Add(t.Context(), ipam.Request{Owner: owner("a")}); !errors.Is(err, ipam.ErrExhausted) {
		t.Errorf("the error is %v", err)
	}
	h.requireLeases("a")
}

// TestRepeatedAddOfAnother: an attachment that asks for another address keeps the one that it has
// until the new one is known to be free.
func TestRepeatedAddOfAnother(t *testing.T) {
	for _, taken := range []bool{false, true} {
		h := newHost(t, newStore(), 0, `"reserved": ["10.0.0.8/29"], "ranges": [{"subnet": "10.0.0.0/28"}]`)
		old, other := netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.10")
		if got := h.request(ipam.Request{Owner: owner("a"), Addresses: []netip.Addr{old}}); got != old.String() {
			t.Fatal(got)
		}
		h.options.Probe = func(context.Context, netip.Addr) (bool, error) {
			h.requireLeases("a", other, old) // by the names of their files
			return taken, nil
		}
		h.restart()
		want := other
		if _, err := h.Add(t.Context(), ipam.Request{Owner: owner("a"), Addresses: []netip.Addr{other}}); (err != nil) != taken {
			t.Errorf("taken is %t: %v", taken, err)
		}
		if taken {
			want = old
		}
		h.requireLeases("a", want)
	}
}
