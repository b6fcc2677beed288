// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/hostid"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// memory is a disk in memory, of one process.
type memory map[string]string

func (m memory) read(name string) ([]byte, error) {
	if text, ok := m[name]; ok {
		return []byte(text), nil
	}
	return nil, nil
}

func (memory) pathOf(name string) string { return "/" + name }

func (m memory) write(name string, data []byte) error {
	m[name] = string(data)
	return nil
}

func (memory) lock(context.Context) (func(), error) { return func() {}, nil }

// unused are addresses without leases.
type unused struct{}

func (unused) Lock(context.Context) (func(), error) { return func() {}, nil }

func (unused) LastUse(ipam.Block) (int, time.Time, error) { return 0, time.Time{}, nil }

func (unused) Forget(ipam.Block) error { return nil }

func fuzzHost(letter string) ipam.Host {
	return ipam.Host{Instance: strings.Repeat(letter, 32), NodeID: "node-" + letter, MachineID: "machine-" + letter, Boot: "boot-" + letter}
}

var fuzzEndpoint = ipam.Endpoint{Address: netip.MustParseAddr("192.0.2.1"), MAC: "02:00:5e:00:53:01"}

// leasesOf are those of a host with files in memory.
func leasesOf(store ipam.Store, host ipam.Host, files memory) *Leases {
	l := New(Options{Config: poolConfigs[0], Addresses: unused{}, Connect: func() (ipam.Store, ipam.Host, error) { return store, host, nil }})
	l.ledger.dir, l.machine.dir = files, files
	l.machine.self = func() (hostid.Identity, error) { return hostid.Identity{Host: host, Born: true}, nil }
	return l
}

// FuzzFiles: whatever blocks.json, view.json, node.json and endpoint.json contain, a file is refused with its
// path and stays as it is, or nothing of another host is touched, and what is open after a
// verification is this host's.
func FuzzFiles(f *testing.F) {
	seed := memory{}
	first := leasesOf(&storetest.Fake{}, fuzzHost("a"), seed)
	if _, err := first.Claim(context.Background(), ipam.IPv4, nil); err != nil {
		f.Fatal(err)
	}
	if err := first.SetEndpoint(context.Background(), fuzzEndpoint); err != nil {
		f.Fatal(err)
	}
	f.Add(seed[recordsFile], seed[viewFile], seed[nodeFile], seed[endpointFile])
	f.Add(strings.Replace(seed[recordsFile], "held", "releasing", 1), "", strings.Replace(seed[nodeFile], "null", `["1"]`, 1), `{"version":1,"instance":"`+fuzzHost("a").Instance+`","endpoint":{"address":""}}`)
	f.Add(strings.Replace(seed[recordsFile], "held", "claiming", 1), "{", "{}", "{")
	f.Add(`{"version":1,"blocks":[{"block":"192.0.2.0/30","state":"held"},{"block":"fd00::/126","state":"lost"}]}`, `{"gone":{"x":{"boot":"a"}}}`, "", `{"version":2}`)
	f.Fuzz(func(t *testing.T, blocks, view, node, endpoint string) {
		store, files := &storetest.Fake{}, memory{}
		other := leasesOf(store, fuzzHost("b"), memory{})
		theirs, err := other.Claim(t.Context(), ipam.IPv4, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{recordsFile: blocks, viewFile: view, nodeFile: node, endpointFile: endpoint} {
			if text != "" {
				files[name] = text
			}
		}
		l, before := leasesOf(store, fuzzHost("a"), files), maps.Clone(files)
		if _, err := l.Overview(); err != nil {
			requireRefused(t, l, err, before)
		} else {
			requireOwn(t, l, store)
		}
		if entry, err := store.Get(t.Context(), ipam.BlockPath("p", theirs)); err != nil || other.Verify(t.Context()) != nil {
			t.Errorf("the other host's block is %s, %v", entry.Content, err)
		}
	})
}

// requireRefused requires that files that cannot be used stay as they are.
func requireRefused(t *testing.T, l *Leases, err error, before memory) {
	t.Helper()
	if !strings.Contains(err.Error(), "/"+recordsFile) && !strings.Contains(err.Error(), "/"+nodeFile) {
		t.Errorf("refused: %v, without a path", err)
	}
	if _, err := l.Claim(t.Context(), ipam.IPv4, nil); err == nil {
		t.Error("claimed a block, with files that cannot be used")
	}
	for _, name := range []string{recordsFile, nodeFile} {
		if got, _ := l.ledger.dir.read(name); string(got) != before[name] {
			t.Errorf("%s became %s", name, got)
		}
	}
}

// requireOwn requires that what is open after a verification is this host's.
func requireOwn(t *testing.T, l *Leases, store ipam.Store) {
	t.Helper()
	if l.Verify(t.Context()) != nil {
		return // it is a clone, or the store has what the host does not know
	}
	_, _ = l.Claim(t.Context(), ipam.IPv4, nil) // it may have to wait
	o, err := l.Overview()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range o.Open() {
		var content ipam.BlockContent
		entry, err := store.Get(t.Context(), ipam.BlockPath("p", b))
		if err == nil {
			content, err = ipam.DecodeBlock(entry.Content, l.Config)
		}
		reachable := content.Endpoint == ipam.Endpoint{} || content.Endpoint.Validate() == nil
		if err != nil || content.Host.Instance != fuzzHost("a").Instance || !reachable {
			text, _ := json.Marshal(content)
			t.Errorf("%s is open, and the store has %s, %v", b, text, err)
		}
	}
}
