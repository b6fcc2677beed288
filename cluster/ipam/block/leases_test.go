// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/hostid"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// addresses have no lease.
type addresses struct{}

func (addresses) Lock(context.Context) (func(), error) { return func() {}, nil }

func (addresses) LastUse(ipam.Block) (int, time.Time, error) { return 0, time.Time{}, nil }

func (addresses) Forget(ipam.Block) error { return nil }

// testHost is a host with a state directory and a node of its own. All have one machine ID.
func testHost(t *testing.T, m ipam.Store, instance string) *block.Leases {
	t.Helper()
	return testNode(t, m, instance, "node-"+instance)
}

// testNode is a host with a state directory of its own.
func testNode(t *testing.T, m ipam.Store, instance, nodeID string) *block.Leases {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"type": "allocnet-ipam", "pool": "lab", "ranges": [{"subnet": "10.91.0.0/24"}], "blockSize": {"4": 26}, "stateDir": "` + t.TempDir() + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(c.StateDir, "ipam")
	if err := os.MkdirAll(filepath.Join(dir, "pools", "lab"), 0o700); err != nil {
		t.Fatal(err)
	}
	instance = strings.Repeat(instance, 32)
	if err := os.WriteFile(filepath.Join(dir, "instance"), []byte(instance+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := hostid.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	self := id.Host
	self.NodeID = nodeID
	return block.New(block.Options{Config: c, Addresses: addresses{}, Connect: func() (ipam.Store, ipam.Host, error) { return m, self, nil }})
}

// claim leases one more block than those that the host has.
func claim(t *testing.T, l *block.Leases, f ipam.Family) (ipam.Block, error) {
	t.Helper()
	var known []ipam.Block
	if o, err := l.Overview(); err == nil { // else Claim fails, too
		for _, r := range o.Blocks {
			known = append(known, r.Block)
		}
	}
	return l.Claim(t.Context(), f, known)
}

// TestLeases: hosts claim different blocks until none is left, and give back all but a spare
// one, on a real disk.
func TestLeases(t *testing.T) {
	m := &storetest.Fake{}
	a, b := testHost(t, m, "a"), testHost(t, m, "b")
	claimed := map[ipam.Block]bool{}
	for _, l := range []*block.Leases{a, b, a, b} {
		got, err := claim(t, l, ipam.IPv4)
		if err != nil {
			t.Fatal(err)
		}
		if claimed[got] {
			t.Errorf("%s was claimed twice", got)
		}
		claimed[got] = true
	}
	if _, err := claim(t, a, ipam.IPv4); !errors.Is(err, ipam.ErrExhausted) {
		t.Errorf("a fifth block of four: %v", err)
	}
	if _, err := a.Watch(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := errors.Join(a.Verify(t.Context()), a.Refresh(t.Context())); err != nil {
		t.Error(err)
	}
	overview, err := a.Overview()
	if err != nil {
		t.Fatal(err)
	}
	for i, open := range overview.Open() {
		if r := overview.Blocks[i]; r.Block != open || r.State != block.Held || !claimed[open] {
			t.Errorf("open is %s of %v", open, r)
		}
	}
	if len(overview.Open()) != 2 || time.Since(overview.Verified) > time.Minute {
		t.Errorf("%+v", overview)
	}
	reclaimed, err := b.Reclaim(t.Context(), 0, func(_ context.Context, id string) (bool, error) { return id == "node-a", nil })
	if err != nil || len(reclaimed) != 2 {
		t.Errorf("reclaimed %v, %v", reclaimed, err)
	}
}

// TestAdoptsOfItsNode: the blocks of another node are left alone though the machine ID is the
// same, as it is on machines of one image.
func TestAdoptsOfItsNode(t *testing.T) {
	m := &storetest.Fake{}
	owner := testHost(t, m, "a")
	if _, err := claim(t, owner, ipam.IPv4); err != nil {
		t.Fatal(err)
	}
	unused := func(ipam.Block) (bool, error) { return false, nil }
	path := ipam.NodePath(strings.Repeat("a", 32))
	for _, test := range []struct{ instance, nodeID, challenger string }{{"b", "node-b", ""}, {"c", "node-a", strings.Repeat("c", 32)}} {
		if _, err := testNode(t, m, test.instance, test.nodeID).Adopt(t.Context(), unused); err != nil {
			t.Fatal(err)
		}
		var content ipam.NodeContent
		entry, err := m.Get(t.Context(), path)
		if err == nil {
			content, err = ipam.DecodeNode(entry.Content)
		}
		if err != nil && !errors.Is(err, ipam.ErrNotFound) || content.Challenger != test.challenger {
			t.Errorf("%s challenges the owner: %+v, %v", test.nodeID, content, err)
		}
	}
}

// TestAnswers: an instance that lives says so when it verifies, also one that has no entry.
func TestAnswers(t *testing.T) {
	m := &storetest.Fake{}
	h, other := testNode(t, m, "a", "node"), testNode(t, m, "b", "node")
	if _, err := claim(t, other, ipam.IPv4); err != nil {
		t.Fatal(err)
	}
	_, self, err := h.Connect()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false, true, false} {
		if i == 3 {
			if err := other.Verify(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := h.Answers(t.Context(), m, self, strings.Repeat("b", 32)); got != want || err != nil {
			t.Errorf("asked %d times before: %v, %v, want %v", i, got, err, want)
		}
	}
}

// TestPoolIsCreatedAgain with the blocks, in a store that was restored to before the pool.
func TestPoolIsCreatedAgain(t *testing.T) {
	m := &storetest.Fake{}
	host := testHost(t, m, "a")
	b, err := claim(t, host, ipam.IPv4)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{ipam.PoolPath("lab"), ipam.BlockPath("lab", b)} {
		entry, err := m.Get(t.Context(), path)
		if err == nil {
			err = m.Delete(t.Context(), path, entry.Index)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := host.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{ipam.PoolPath("lab"), ipam.BlockPath("lab", b)} {
		if _, err := m.Get(t.Context(), path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestClaimedMeanwhile: a caller that has found too few blocks gets the one that another process
// has leased since.
func TestClaimedMeanwhile(t *testing.T) {
	l := testHost(t, &storetest.Fake{}, "a")
	var all []ipam.Block
	for range 2 {
		got, err := l.Claim(t.Context(), ipam.IPv4, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got)
	}
	if more, err := l.Claim(t.Context(), ipam.IPv4, all[:1]); all[0] != all[1] || err != nil || more == all[0] {
		t.Errorf("claimed %s, and then %s, %v, want another one only in the end", all, more, err)
	}
}

// lossy makes changes and loses the answers.
type lossy struct {
	*storetest.Fake
	lost, creates int
}

func (s *lossy) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	s.creates++
	index, err := s.Fake.Create(ctx, path, content)
	if s.lost > 0 && strings.Contains(path, "/b/") {
		s.lost--
		return 0, ipam.ErrUnavailable
	}
	return index, err
}

// TestLostAnswer: a block whose claim had no answer is found by reading, because a refused
// request is a write to the servers, too.
func TestLostAnswer(t *testing.T) {
	store := &lossy{Fake: &storetest.Fake{}, lost: 1}
	l := testHost(t, store, "a")
	if got, err := l.Claim(t.Context(), ipam.IPv4, nil); !errors.Is(err, ipam.ErrUnavailable) {
		t.Fatalf("claimed %s, %v, want no answer", got, err)
	}
	before := store.creates
	if got, err := l.Claim(t.Context(), ipam.IPv4, nil); err != nil || store.creates != before {
		t.Errorf("claimed %s, %v, with %d more requests, want none", got, err, store.creates-before)
	}
}

// crowded is a store in which, when the first block is requested, other hosts claim it and all
// others but one.
type crowded struct {
	*storetest.Fake
	slots ipam.Slots
	began bool
}

func (s *crowded) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	if s.began || !strings.Contains(path, "/b/") {
		return s.Fake.Create(ctx, path, content)
	}
	s.began = true
	left := ipam.BlockPath("lab", s.slots.At(0))
	if path == left {
		left = ipam.BlockPath("lab", s.slots.At(1))
	}
	for i := range s.slots.Count() {
		if other := ipam.BlockPath("lab", s.slots.At(i)); other != left {
			if _, err := s.Fake.Create(ctx, other, []byte("another host's")); err != nil {
				return 0, err
			}
		}
	}
	return s.Fake.Create(ctx, path, content)
}

// TestManyClaimAtOnce: a host that finds its slot taken looks which ones are left.
func TestManyClaimAtOnce(t *testing.T) {
	c := parse(t, `"ranges": [{"subnet": "10.91.0.0/20"}], "blockSize": {"4": 30}, "stateDir": "`+t.TempDir()+`"`)
	m := newMachine(t, &crowded{Fake: &storetest.Fake{}, slots: c.Slots(ipam.IPv4)}, nil, "")
	m.configure(t, `"ranges": [{"subnet": "10.91.0.0/20"}], "blockSize": {"4": 30}, "stateDir": "`+m.dir+`"`)
	if got, err := claim(t, m.Leases, ipam.IPv4); err != nil {
		t.Errorf("claimed %s, %v, want the last free block", got, err)
	}
}

// contested is a store in which another host makes the pool's configuration at the same time.
type contested struct {
	*storetest.Fake
	made bool
}

func (s *contested) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	index, err := s.Fake.Create(ctx, path, content)
	if err == nil && !s.made && path == ipam.PoolPath("lab") {
		s.made = true
		return 0, ipam.ErrConflict
	}
	return index, err
}

// TestAgreesAtTheSameTime: a host whose configuration another one has stored at the same time finds that one.
func TestAgreesAtTheSameTime(t *testing.T) {
	s := &contested{Fake: &storetest.Fake{}}
	if _, err := claim(t, testHost(t, s, "a"), ipam.IPv4); err != nil || !s.made {
		t.Errorf("%v, and the configuration was made by another: %t", err, s.made)
	}
}

// TestAdoptCannotBeRecorded: without a record of when a block was found unused, nothing is adopted later, and the error says so.
func TestAdoptCannotBeRecorded(t *testing.T) {
	m := &storetest.Fake{}
	if _, err := claim(t, testHost(t, m, "a"), ipam.IPv4); err != nil {
		t.Fatal(err)
	}
	again := testNode(t, m, "c", "node-a")
	_, err := again.Adopt(t.Context(), func(ipam.Block) (bool, error) {
		pools, err := filepath.Glob(filepath.Join(filepath.Dir(t.TempDir()), "*", "ipam", "pools", "lab"))
		for _, dir := range pools {
			view := filepath.Join(dir, "view.json")
			err = errors.Join(err, os.RemoveAll(view), os.MkdirAll(filepath.Join(view, "taken"), 0o700))
		}
		return false, err
	})
	if err == nil || !strings.Contains(err.Error(), "view.json") {
		t.Errorf("%v, want that the file cannot be written", err)
	}
}
