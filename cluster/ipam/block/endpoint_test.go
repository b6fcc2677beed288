// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// writesStore counts changes of entries that exist, whose answers it may lose.
type writesStore struct {
	storetest.Fake
	updates int
	// unanswered updates are made, and their answers lost. After one, unreadable reads fail. Those that the
	// store refuses are not made.
	unanswered, unreadable, refused int
}

func (s *writesStore) Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	s.updates++
	if s.refused > 0 {
		s.refused--
		return 0, ipam.ErrUnavailable
	}
	index, err := s.Fake.Update(ctx, path, content, index)
	if s.unanswered > 0 {
		s.unanswered--
		return 0, ipam.ErrUnavailable
	}
	return index, err
}

func (s *writesStore) Get(ctx context.Context, path string) (ipam.Entry, error) {
	if s.updates > 0 && s.unreadable > 0 && strings.Contains(path, "/b/") {
		s.unreadable--
		return ipam.Entry{}, ipam.ErrUnavailable
	}
	return s.Fake.Get(ctx, path)
}

func reachedAt(address string) ipam.Endpoint {
	return ipam.Endpoint{Address: netip.MustParseAddr(address), LinkLocal: netip.MustParseAddr("fe80::1"), MAC: "02:00:5e:00:53:01"}
}

// endpointPath is where a machine has its endpoint.
func (m *machine) endpointPath() string {
	return filepath.Join(m.dir, "ipam", "pools", "lab", "endpoint.json")
}

// process is another process of the machine, which no agent keeps.
func (m *machine) process() *block.Leases {
	return block.New(block.Options{Config: m.config, Addresses: addresses{}, Connect: m.Connect})
}

func (m *machine) mustClaim(t *testing.T, l *block.Leases) ipam.Block {
	t.Helper()
	b, err := claim(t, l, ipam.IPv4)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// requireStored requires the endpoint of blocks in the store, and how often they were updated.
func (m *machine) requireStored(t *testing.T, store *writesStore, want ipam.Endpoint, updates int, blocks ...ipam.Block) {
	t.Helper()
	for _, b := range blocks {
		entry, err := store.Fake.Get(t.Context(), ipam.BlockPath("lab", b))
		if err != nil {
			t.Fatal(err)
		}
		if content, err := ipam.DecodeBlock(entry.Content, m.config); err != nil || content.Endpoint != want {
			t.Errorf("%s has the endpoint %v, %v, want %v", b, content.Endpoint, err, want)
		}
	}
	if store.updates != updates {
		t.Errorf("%d updates, want %d", store.updates, updates)
	}
}

// TestSetEndpoint: each process that claims a block says where the host is reached, and what is
// in the store is changed when that changes, once.
func TestSetEndpoint(t *testing.T) {
	store := &writesStore{}
	m := newMachine(t, store, nil, "")
	without := m.mustClaim(t, m.Leases)
	entry, err := store.Fake.Get(t.Context(), ipam.BlockPath("lab", without))
	if err != nil || strings.Contains(string(entry.Content), "endpoint") {
		t.Errorf("without an endpoint the entry is %s, %v", entry.Content, err)
	}
	if data := read(t, m.path("blocks.json")); strings.Contains(data, "endpoint") {
		t.Errorf("without an endpoint the record is %s", data)
	}
	first, second := reachedAt("192.0.2.1"), reachedAt("192.0.2.2")
	m.requireSet(t, first)
	m.requireStored(t, store, first, 1, without)
	with := m.mustClaim(t, m.process())
	m.requireStored(t, store, first, 1, without, with)
	m.requireSet(t, second)
	m.requireStored(t, store, second, 3, without, with)
	before, err := os.Stat(m.endpointPath())
	if err != nil {
		t.Fatal(err)
	}
	m.requireSet(t, second)
	if err := errors.Join(m.Verify(t.Context()), m.Verify(t.Context()), m.process().Verify(t.Context())); err != nil {
		t.Error(err)
	}
	m.requireStored(t, store, second, 3, without, with)
	if after, err := os.Stat(m.endpointPath()); err != nil || !os.SameFile(before, after) {
		t.Errorf("the same endpoint was written again: %v", err)
	}
	m.requireSet(t, ipam.Endpoint{})
	m.requireStored(t, store, ipam.Endpoint{}, 5, without, with)
}

func (m *machine) requireSet(t *testing.T, e ipam.Endpoint) {
	t.Helper()
	if err := m.SetEndpoint(t.Context(), e); err != nil {
		t.Errorf("set the endpoint %v: %v", e, err)
	}
}

// TestVerifyWritesEndpoint: what SetEndpoint could not write is written by Verify, of another
// process, too.
func TestVerifyWritesEndpoint(t *testing.T) {
	store := &writesStore{}
	m := newMachine(t, store, nil, "")
	claimed, reachable := m.mustClaim(t, m.Leases), m.Connect
	m.Connect = func() (ipam.Store, ipam.Host, error) { return nil, ipam.Host{}, ipam.ErrUnavailable }
	e := reachedAt("192.0.2.1")
	if err := m.SetEndpoint(t.Context(), e); !errors.Is(err, ipam.ErrUnavailable) {
		t.Errorf("without a store: %v", err)
	}
	m.Connect = reachable
	if err := m.process().Verify(t.Context()); err != nil {
		t.Error(err)
	}
	m.requireStored(t, store, e, 1, claimed)
}

// TestLostAnswerOfEndpoint: an update that was made without an answer is found, at once or later, and not
// made again.
func TestLostAnswerOfEndpoint(t *testing.T) {
	for unreadable, want := range map[int]error{0: nil, 1: ipam.ErrUnavailable} {
		store := &writesStore{unanswered: 1, unreadable: unreadable}
		m := newMachine(t, store, nil, "")
		claimed := m.mustClaim(t, m.Leases)
		if err := m.Verify(t.Context()); err != nil { // what the store has is trusted from now on
			t.Fatal(err)
		}
		e := reachedAt("192.0.2.1")
		if err := m.SetEndpoint(t.Context(), e); !errors.Is(err, want) {
			t.Errorf("the endpoint with %d failing reads: %v, want %v", unreadable, err, want)
		}
		if err := m.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		m.requireSet(t, e)
		m.requireStored(t, store, e, 1, claimed)
	}
}

// TestRefusedEndpoint: an update that was not made is an error, until one is made.
func TestRefusedEndpoint(t *testing.T) {
	store := &writesStore{}
	m := newMachine(t, store, nil, "")
	claimed := m.mustClaim(t, m.Leases)
	first, second := reachedAt("192.0.2.1"), reachedAt("192.0.2.2")
	m.requireSet(t, first)
	store.refused = 1
	if err := m.SetEndpoint(t.Context(), second); !errors.Is(err, ipam.ErrUnavailable) {
		t.Errorf("an update that was refused: %v", err)
	}
	m.requireStored(t, store, first, 2, claimed)
	m.requireSet(t, second)
	m.requireStored(t, store, second, 3, claimed)
}

// TestEndpointOfLostBlock: an entry that another host has is not this host's to change.
func TestEndpointOfLostBlock(t *testing.T) {
	store := &writesStore{}
	m := newMachine(t, store, nil, "")
	claimed := m.mustClaim(t, m.Leases)
	m.requireSet(t, reachedAt("192.0.2.1"))
	entry, err := store.Fake.Get(t.Context(), ipam.BlockPath("lab", claimed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := ipam.DecodeBlock(entry.Content, m.config)
	if err != nil {
		t.Fatal(err)
	}
	content.Host.Instance, content.Endpoint = strings.Repeat("f", 32), reachedAt("198.51.100.1")
	if _, err := store.Fake.Update(t.Context(), entry.Path, ipam.Encode(content), entry.Index); err != nil {
		t.Fatal(err)
	}
	if err := m.Verify(t.Context()); err != nil || !strings.Contains(read(t, m.path("blocks.json")), string(block.Lost)) {
		t.Fatalf("the block is not lost: %v", err)
	}
	m.requireSet(t, reachedAt("192.0.2.2"))
	m.requireStored(t, store, content.Endpoint, 1, claimed)
}

// TestChangedElsewhere: an endpoint that another program has changed is changed back.
func TestChangedElsewhere(t *testing.T) {
	store := &writesStore{}
	m := newMachine(t, store, nil, "")
	claimed := m.mustClaim(t, m.Leases)
	e := reachedAt("192.0.2.1")
	m.requireSet(t, e)
	if err := m.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	entry, err := store.Fake.Get(t.Context(), ipam.BlockPath("lab", claimed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := ipam.DecodeBlock(entry.Content, m.config)
	if err != nil {
		t.Fatal(err)
	}
	content.Endpoint = reachedAt("198.51.100.1")
	if _, err := store.Fake.Update(t.Context(), entry.Path, ipam.Encode(content), entry.Index); err != nil {
		t.Fatal(err)
	}
	if err := m.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	m.requireStored(t, store, e, 2, claimed)
}

// TestDamagedEndpoint: a file that cannot be used is named, and stops no claim. The agent writes
// it again, and then the store has the endpoint.
func TestDamagedEndpoint(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"empty":              {"", "unexpected end"},
		"half":               {`{"version":1,"inst`, "unexpected end"},
		"of another kind":    {"[]", "cannot unmarshal"},
		"of another release": {`{"version":2}`, "version is 2, want at most 1"},
		"not an address":     {`{"version":1,"instance":"INSTANCE","endpoint":{"address":"x"}}`, "ParseAddr"},
		"loopback":           {`{"version":1,"instance":"INSTANCE","endpoint":{"address":"127.0.0.1"}}`, "address is 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			store, log := &writesStore{}, &bytes.Buffer{}
			m := newMachine(t, store, nil, "")
			m.mustClaim(t, m.Leases) // makes the directory
			write(t, m.endpointPath(), strings.ReplaceAll(test.data, "INSTANCE", m.id.Instance))
			l := m.process()
			l.Logger = hclog.New(&hclog.LoggerOptions{Output: log})
			claimed := m.mustClaim(t, l)
			if err := l.Verify(t.Context()); err != nil {
				t.Error(err)
			}
			m.requireStored(t, store, ipam.Endpoint{}, 0, claimed)
			for _, part := range []string{m.endpointPath(), test.want, "start the agent"} {
				if !strings.Contains(log.String(), part) {
					t.Errorf("%q is not in the log:\n%s", part, log)
				}
			}
			e := reachedAt("192.0.2.1")
			m.requireSet(t, e)
			m.requireStored(t, store, e, 2, claimed)
		})
	}
}

// TestEndpointOfAnotherInstance: a state directory that was copied and separated does not send the
// traffic of this host to the other one.
func TestEndpointOfAnotherInstance(t *testing.T) {
	store := &writesStore{}
	m := newMachine(t, store, nil, "")
	m.mustClaim(t, m.Leases)
	write(t, m.endpointPath(), fmt.Sprintf(`{"version":1,"instance":%q,"endpoint":{"address":"192.0.2.1"}}`, strings.Repeat("f", 32)))
	m.requireStored(t, store, ipam.Endpoint{}, 0, m.mustClaim(t, m.Leases))
}

// TestNewHostIsReached: a machine that has just announced itself says where the blocks that it has
// claimed in this boot are reached, at once. Of others it does so when a copy had time to object.
func TestNewHostIsReached(t *testing.T) {
	for name, test := range map[string]struct {
		old, new string
		atOnce   bool
	}{
		"claimed in this boot":              {"", "", true},
		"claimed in an earlier boot":        {`"boot":"BOOT"}`, `"boot":"an earlier one"}`, false},
		"claimed by an older release":       {`,"boot":"BOOT"}`, `}`, false},
		"with a claim that it did not make": {`"claim":"`, `"claim":"0`, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := &writesStore{}
			m := newMachine(t, store, nil, "")
			claimed := m.mustClaim(t, m.Leases)
			if _, err := m.Identify(t.Context(), store, m.id.Host); err != nil {
				t.Fatal(err)
			}
			before := read(t, m.path("blocks.json"))
			after := strings.ReplaceAll(before, strings.ReplaceAll(test.old, "BOOT", m.id.Boot), test.new)
			if !test.atOnce && after == before {
				t.Fatalf("the record is %s, want %s in it", before, test.old)
			}
			write(t, m.path("blocks.json"), after)
			if err := m.process().Verify(t.Context()); err != nil {
				t.Fatal(err)
			}
			e := reachedAt("192.0.2.1")
			m.requireSet(t, e)
			if !test.atOnce {
				m.requireStored(t, store, ipam.Endpoint{}, 0, claimed)
				m.age(t)
				m.requireSet(t, e)
			}
			m.requireStored(t, store, e, 1, claimed)
		})
	}
}
