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

// machine is a host whose instance was made by it, in this boot.
type machine struct {
	*block.Leases
	dir    string
	id     hostid.Identity
	config *ipam.Config
}

// newMachine returns a host with a state directory of its own, or with a copy of another's
// instance in the boot that the copy is in.
func newMachine(t *testing.T, store ipam.Store, of *machine, boot string) *machine {
	t.Helper()
	m := &machine{dir: t.TempDir()}
	m.config = parse(t, `"ranges": [{"subnet": "10.91.0.0/27"}], "blockSize": {"4": 28}, "stateDir": "`+m.dir+`"`)
	dir := filepath.Join(m.dir, "ipam")
	if of != nil {
		data, err := os.ReadFile(filepath.Join(of.dir, "ipam", "instance"))
		if err != nil {
			t.Fatal(err)
		}
		data = []byte(strings.Replace(string(data), of.id.Boot, boot, 1))
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "instance"), data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if m.id, err = hostid.Make(dir); err != nil {
		t.Fatal(err)
	}
	if !m.id.Born && (of == nil || boot == m.id.Boot) {
		t.Fatal("/etc/machine-id is missing: the machine cannot know its own instance")
	}
	m.Leases = block.New(block.Options{Config: m.config, Addresses: addresses{}, Connect: func() (ipam.Store, ipam.Host, error) { return store, m.id.Host, nil }})
	return m
}

func parse(t *testing.T, keys string) *ipam.Config {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"type": "allocnet-ipam", "pool": "lab", ` + keys + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// registered is whether the store knows the machine's instance.
func (m *machine) registered(t *testing.T, store ipam.Store) bool {
	t.Helper()
	_, err := store.Get(t.Context(), ipam.NodePath(m.id.Instance))
	if err != nil && !errors.Is(err, ipam.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// TestFresh: a machine does not write its instance's entry in the boot in which it was made.
func TestFresh(t *testing.T) {
	store := &storetest.Fake{}
	m := newMachine(t, store, nil, "")
	_, err := claim(t, m.Leases, ipam.IPv4)
	if err := errors.Join(err, m.Verify(t.Context())); err != nil {
		t.Fatal(err)
	}
	if m.registered(t, store) {
		t.Error("a machine that made its instance in this boot has an entry")
	}
	if _, err := m.Identify(t.Context(), store, m.id.Host); err != nil || !m.registered(t, store) {
		t.Errorf("identified: %v, the machine has no entry", err)
	}
}

// TestCopyStarts: a copy of a fresh machine's disk registers, and the original objects.
func TestCopyStarts(t *testing.T) {
	store := &storetest.Fake{}
	m := newMachine(t, store, nil, "")
	claimed, err := claim(t, m.Leases, ipam.IPv4)
	if err != nil {
		t.Fatal(err)
	}
	c := newMachine(t, store, m, "another boot")
	if _, err := claim(t, c.Leases, ipam.IPv4); err != nil || !c.registered(t, store) {
		t.Errorf("the copy claims: %v, want an entry before the original has seen it", err)
	}
	for name, l := range map[string]*machine{"original": m, "copy": c} {
		if err := errors.Join(m.Verify(t.Context()), l.Verify(t.Context())); !errors.Is(err, ipam.ErrTwin) {
			t.Errorf("the %s verifies: %v, want %v", name, err, ipam.ErrTwin)
		}
		if o, err := l.Overview(); err != nil || len(o.Open()) > 0 || !errors.Is(o.Closed, ipam.ErrTwin) {
			t.Errorf("the %s has %v open, closed because of %v, %v", name, o.Open(), o.Closed, err)
		}
	}
	if _, err := store.Get(t.Context(), ipam.BlockPath("lab", claimed)); err != nil {
		t.Errorf("the original's block: %v", err)
	}
}

// stale is a store whose listings are of before the other claimed.
type stale struct{ *storetest.Fake }

func (stale) List(context.Context, string, uint64) (ipam.Listing, error) {
	return ipam.Listing{Index: 1}, nil
}

// TestCopyInTheSameBoot: a copy of a machine with its memory, before the first claim, does not
// take the original's block for its own, and does not delete it.
func TestCopyInTheSameBoot(t *testing.T) {
	store := &storetest.Fake{}
	m := newMachine(t, store, nil, "")
	claimed, err := claim(t, m.Leases, ipam.IPv4)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := claim(t, newMachine(t, stale{store}, m, m.id.Boot).Leases, ipam.IPv4); err == nil {
		t.Errorf("the copy claims %s, and the original has %s", got, claimed)
	}
	if err := m.Verify(t.Context()); !errors.Is(err, ipam.ErrTwin) {
		t.Errorf("the original verifies: %v, want %v", err, ipam.ErrTwin)
	}
}

// TestCopyReclaims: as above, with a copy that has found a block of its own.
func TestCopyReclaims(t *testing.T) {
	store := &storetest.Fake{}
	m := newMachine(t, store, nil, "")
	if _, err := claim(t, m.Leases, ipam.IPv4); err != nil {
		t.Fatal(err)
	}
	c := newMachine(t, store, m, m.id.Boot)
	reclaimed, err := c.Reclaim(t.Context(), 0, func(context.Context, string) (bool, error) { return true, nil })
	if err != nil || len(reclaimed) > 0 || !c.registered(t, store) {
		t.Errorf("reclaimed %v, %v, want nothing, and an entry of the copy", reclaimed, err)
	}
	if _, err := claim(t, c.Leases, ipam.IPv4); err != nil {
		t.Errorf("the copy claims a free block: %v", err)
	}
}

// TestGuardKeepsFence: what asks on behalf of reserved addresses leaves the entry as it is, which says for how long the
// host may give out addresses.
func TestGuardKeepsFence(t *testing.T) {
	store := &storetest.Fake{}
	m := newMachine(t, store, nil, "")
	m.Fence = func() (time.Duration, error) { return 48 * time.Hour, nil }
	if _, err := m.Identify(t.Context(), store, m.id.Host); err != nil { // the entry is made
		t.Fatal(err)
	}
	if err := m.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := ipam.NodePath(m.id.Instance)
	before, err := store.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Identify(t.Context(), store, m.id.Host); err != nil {
		t.Fatal(err)
	}
	after, err := store.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := ipam.DecodeNode(after.Content); err != nil || content.Fence != int64(48*time.Hour) || after.Index != before.Index {
		t.Errorf("the entry with the index %d has become %d, %s, %v", before.Index, after.Index, after.Content, err)
	}
}
