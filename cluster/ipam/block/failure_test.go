// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// unreadable are addresses whose leases can be read some times.
type unreadable struct {
	addresses
	times int
}

var errUnreadable = errors.New("the leases cannot be read")

func (u *unreadable) LastUse(ipam.Block) (int, time.Time, error) {
	if u.times--; u.times < 0 {
		return 0, time.Time{}, errUnreadable
	}
	return 0, time.Time{}, nil
}

// TestUnreadableLeases: a host that does not know whether a block has leases does not give it back.
func TestUnreadableLeases(t *testing.T) {
	m := newMachine(t, &storetest.Fake{}, nil, "")
	claimed := m.mustClaim(t, m.Leases)
	m.age(t)
	for times := range 2 {
		m.Leases = block.New(block.Options{Config: m.config, Addresses: &unreadable{times: times}, Connect: m.Connect})
		if released, err := m.Release(t.Context(), 0, 0); !errors.Is(err, errUnreadable) || len(released) > 0 {
			t.Errorf("read %d times: released %s, %v, want %v", times, released, err, errUnreadable)
		}
	}
	if err := m.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.requireOpen(t, claimed)
}

// TestUnreadableLeasesOfLostBlock: nor does it take a lost block again, or forget it.
func TestUnreadableLeasesOfLostBlock(t *testing.T) {
	store := &storetest.Fake{}
	m := newMachine(t, store, nil, "")
	path := ipam.BlockPath("lab", m.mustClaim(t, m.Leases))
	entry, err := store.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(entry.Content), m.id.Instance, strings.Repeat("f", 32), 1)
	index, err := store.Update(t.Context(), path, []byte(other), entry.Index)
	if err := errors.Join(err, m.Verify(t.Context()), store.Delete(t.Context(), path, index)); err != nil {
		t.Fatal(err)
	}
	m.Leases = block.New(block.Options{Config: m.config, Addresses: &unreadable{}, Connect: m.Connect})
	if err := m.Verify(t.Context()); !errors.Is(err, errUnreadable) {
		t.Errorf("verified: %v, want %v", err, errUnreadable)
	}
	if o, err := m.Overview(); err != nil || len(o.Blocks) != 1 || o.Blocks[0].State != block.Lost {
		t.Errorf("it has %+v, %v, want the lost block", o, err)
	}
}

// TestReclaimUnanswered: a block is not reclaimed before the store says so.
func TestReclaimUnanswered(t *testing.T) {
	fake := &storetest.Fake{}
	if _, err := claim(t, testHost(t, fake, "a"), ipam.IPv4); err != nil {
		t.Fatal(err)
	}
	store := &keeping{fake, ipam.ErrUnavailable}
	l := testHost(t, store, "b")
	gone := func(context.Context, string) (bool, error) { return true, nil }
	if reclaimed, err := l.Reclaim(t.Context(), 0, gone); len(reclaimed) > 0 || !errors.Is(err, ipam.ErrUnavailable) {
		t.Errorf("reclaimed %v, %v, want %v", reclaimed, err, ipam.ErrUnavailable)
	}
	store.err = nil
	if reclaimed, err := l.Reclaim(t.Context(), 0, gone); len(reclaimed) != 1 || err != nil {
		t.Errorf("reclaimed %v, %v, want the block", reclaimed, err)
	}
}

// TestNotClaimed: neither a block without addresses is claimed, nor one that the host is giving back.
func TestNotClaimed(t *testing.T) {
	store := &storetest.Fake{}
	m := newMachine(t, store, nil, "")
	m.configure(t, `"ranges": [{"subnet": "10.91.0.0/28", "exclude": ["10.91.0.0/29"]}], "blockSize": {"4": 30}, "stateDir": "`+m.dir+`"`)
	first := m.mustClaim(t, m.Leases)
	entry, err := store.Get(t.Context(), ipam.BlockPath("lab", first))
	if err := errors.Join(err, store.Delete(t.Context(), entry.Path, entry.Index)); err != nil {
		t.Fatal(err)
	}
	write(t, m.path("blocks.json"), replacing(`"state":"held"`, `"state":"releasing"`)(read(t, m.path("blocks.json"))))
	second := m.mustClaim(t, m.Leases)
	if got, err := claim(t, m.Leases, ipam.IPv4); !errors.Is(err, ipam.ErrExhausted) || second == first {
		t.Errorf("claimed %s, %s and %s, %v, want two", first, second, got, err)
	}
}
