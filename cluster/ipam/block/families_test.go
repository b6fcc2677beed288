// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// TestFamilies: blocks of IPv6, of a subnet with 2^58 of them, are claimed, verified and given
// back as those of IPv4, each family for itself.
func TestFamilies(t *testing.T) {
	const ipv4, ipv6 = `{"subnet": "10.91.0.0/24"}`, `{"subnet": "fd91:0:0:1::/64"}`
	for ranges, families := range map[string][]ipam.Family{
		ipv6:               {ipam.IPv6},
		ipv4 + ", " + ipv6: {ipam.IPv4, ipam.IPv6},
	} {
		store := &storetest.Fake{}
		a, b := newMachine(t, store, nil, ""), newMachine(t, store, nil, "")
		for _, m := range []*machine{a, b} {
			m.configure(t, `"ranges": [`+ranges+`], "stateDir": "`+m.dir+`"`)
		}
		claimed := map[string]bool{}
		for _, m := range []*machine{a, b, a} {
			for _, f := range families {
				got, err := claim(t, m.Leases, f)
				if want := map[ipam.Family]int{ipam.IPv4: 26, ipam.IPv6: 122}[f]; err != nil || ipam.FamilyOf(got.Addr()) != f || got.Bits() != want || claimed[got.String()] {
					t.Errorf("claimed %s, %v, want a new /%d of IPv%d", got, err, want, f)
				}
				claimed[got.String()] = true
			}
		}
		if err := errors.Join(a.Verify(t.Context()), b.Verify(t.Context())); err != nil {
			t.Error(err)
		}
		a.requireLost(t, store, families)
		a.requireReleased(t, store, families)
	}
}

// requireLost requires that a block that is missing from the store is created again.
func (m *machine) requireLost(t *testing.T, store *storetest.Fake, families []ipam.Family) {
	t.Helper()
	o, err := m.Overview()
	if err != nil || len(o.Open()) != 2*len(families) {
		t.Fatalf("open are %+v, %v", o, err)
	}
	for _, b := range o.Open() {
		path := ipam.BlockPath("lab", b)
		entry, err := store.Get(t.Context(), path)
		if err := errors.Join(err, store.Delete(t.Context(), path, entry.Index), m.Verify(t.Context())); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Get(t.Context(), path); err != nil {
			t.Errorf("%s: %v, want it in the store again", b, err)
		}
	}
}

// requireReleased requires that all blocks but one of each family are given back, and then the
// last ones.
func (m *machine) requireReleased(t *testing.T, store *storetest.Fake, families []ipam.Family) {
	t.Helper()
	for spare := 1; spare >= 0; spare-- {
		released, err := m.giveBack(t, spare)
		if err != nil || len(released) != len(families) {
			t.Fatalf("released %s, %v, want one of each family", released, err)
		}
		for _, b := range released {
			if _, err := store.Get(t.Context(), ipam.BlockPath("lab", b)); !errors.Is(err, ipam.ErrNotFound) {
				t.Errorf("%s: %v, want it not in the store", b, err)
			}
		}
	}
}

// TestOtherFamily: a block that another process has claimed meanwhile is no answer to a claim of the other family.
func TestOtherFamily(t *testing.T) {
	m := newMachine(t, &storetest.Fake{}, nil, "")
	m.configure(t, `"ranges": [{"subnet": "10.91.0.0/24"}, {"subnet": "fd91::/64"}], "stateDir": "`+m.dir+`"`)
	first, err := m.Claim(t.Context(), ipam.IPv6, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Claim(t.Context(), ipam.IPv4, nil); err != nil || ipam.FamilyOf(got.Addr()) != ipam.IPv4 {
		t.Errorf("claimed %s, %v, want a block of IPv4", got, err)
	}
	if got, err := m.Claim(t.Context(), ipam.IPv6, nil); err != nil || got != first {
		t.Errorf("claimed %s, %v, want %s, which is there", got, err, first)
	}
}

// TestMaxBlocks: a host has no more blocks of a family than it may, whatever is free.
func TestMaxBlocks(t *testing.T) {
	m := newMachine(t, &storetest.Fake{}, nil, "")
	m.configure(t, `"ranges": [{"subnet": "10.91.0.0/24"}, {"subnet": "fd91::/64"}], "maxBlocks": 2, "stateDir": "`+m.dir+`"`)
	for _, f := range []ipam.Family{ipam.IPv4, ipam.IPv6} {
		for range 2 {
			if _, err := claim(t, m.Leases, f); err != nil {
				t.Fatal(err)
			}
		}
		got, err := claim(t, m.Leases, f)
		if want := fmt.Sprintf("this host has 2 blocks of IPv%d, and maxBlocks is 2", f); !errors.Is(err, ipam.ErrExhausted) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("claimed %s, %v, want %s", got, err, want)
		}
	}
	if released, err := m.giveBack(t, 1); err != nil || len(released) != 2 {
		t.Fatalf("released %s, %v", released, err)
	}
	if _, err := claim(t, m.Leases, ipam.IPv4); err != nil {
		t.Errorf("after one was released: %v", err)
	}
}

// configure gives the machine another pool.
func (m *machine) configure(t *testing.T, keys string) {
	t.Helper()
	m.config = parse(t, keys)
	m.Leases = block.New(block.Options{Config: m.config, Addresses: addresses{}, Connect: m.Connect})
}

// giveBack releases the blocks without leases but some, which takes two calls.
func (m *machine) giveBack(t *testing.T, spare int) ([]ipam.Block, error) {
	t.Helper()
	m.age(t)
	if released, err := m.Release(t.Context(), 0, spare); len(released) > 0 || err != nil {
		t.Errorf("before a copy can object: released %s, %v", released, err)
	}
	m.age(t)
	return m.Release(t.Context(), 0, spare)
}

// age lets the machine have its place for so long that it may give back blocks, and has decided to for as long.
func (m *machine) age(t *testing.T) {
	t.Helper()
	for _, path := range []string{m.path("node.json"), filepath.Join(m.dir, "run/ipam/node.json"), m.path("blocks.json")} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		write(t, path, regexp.MustCompile(`("(registered|offered)":{"time":"[^"]*","uptime":)-*`).ReplaceAllString(read(t, path), "$1-"))
	}
}
