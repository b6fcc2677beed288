// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// files are those of a machine with a block.
var files = map[string]string{
	"blocks.json": "pools/lab/blocks.json",
	"view.json":   "pools/lab/view.json",
	"node.json":   "node.json",
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, "ipam", files[name]) }

// damages are what a file may become, by the part of the error that says so. Some are of one
// file.
var damages = []struct {
	name, file, want string
	damage           func(text string) string
}{
	{"truncated", "blocks.json", "unexpected end", half},
	{"truncated", "node.json", "unexpected end", half},
	{"empty", "blocks.json", "unexpected end", func(string) string { return "" }},
	{"empty", "node.json", "unexpected end", func(string) string { return "" }},
	{"of another release", "blocks.json", "version is 2, want at most 1", replacing(`"version":1`, `"version":2`)},
	{"of a later release", "node.json", "version is 2, want at most 1", replacing(`"version":1`, `"version":2`)},
	{"of a later release with other keys", "node.json", "version is 2, want at most 1", func(string) string { return `{"version":2,"nonces":{"a":1}}` }},
	{"of another pool", "blocks.json", `agreed.pool is "other", want lab`, replacing(`"pool":"lab"`, `"pool":"other"`)},
	{"of an unknown state", "blocks.json", `blocks[0].state is "mine", want claiming, held`, replacing(`"held"`, `"mine"`)},
	{"without a block", "blocks.json", "blocks[0].block", replacing(`"block":"10.91.0.`, `"no":"10.91.0.`)},
	{"of another kind", "node.json", "cannot unmarshal", func(string) string { return "[]" }},
}

func half(text string) string { return text[:len(text)/2] }

func replacing(old, changed string) func(string) string {
	return func(text string) string { return strings.ReplaceAll(text, old, changed) }
}

// TestDamage: a damaged file stops the host from giving out addresses, with an error that names
// it and says what to do. It stays as it is, like the store, and is as good as before once it
// is restored.
func TestDamage(t *testing.T) {
	for _, d := range damages {
		t.Run(d.file+" "+d.name, func(t *testing.T) {
			store := &storetest.Fake{}
			m := newMachine(t, store, nil, "")
			claimed, err := claim(t, m.Leases, ipam.IPv4)
			if err := errors.Join(err, m.Verify(t.Context())); err != nil {
				t.Fatal(err)
			}
			intact := read(t, m.path(d.file))
			damaged := d.damage(intact)
			if damaged == intact {
				t.Fatalf("the damage changes nothing: %s", intact)
			}
			write(t, m.path(d.file), damaged)
			_, errOverview := m.Overview()
			_, errClaim := claim(t, m.Leases, ipam.IPv4)
			for what, err := range map[string]error{"overview": errOverview, "claim": errClaim, "verify": m.Verify(t.Context())} {
				for _, part := range []string{m.path(d.file), d.want, "restore the file", "remove it"} {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("%s: %v, want %q in it", what, err, part)
					}
				}
			}
			if got := read(t, m.path(d.file)); got != damaged {
				t.Errorf("the file became %s", got)
			}
			if _, err := store.Get(t.Context(), ipam.BlockPath("lab", claimed)); err != nil {
				t.Errorf("the block in the store: %v", err)
			}
			write(t, m.path(d.file), intact)
			m.requireOpen(t, claimed)
		})
	}
}

// TestUnreadable: as above, of what is no file.
func TestUnreadable(t *testing.T) {
	for name := range files {
		m := newMachine(t, &storetest.Fake{}, nil, "")
		if err := os.MkdirAll(m.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := claim(t, m.Leases, ipam.IPv4); err == nil || !strings.Contains(err.Error(), m.path(name)) {
			t.Errorf("%s: %v, want an error with the path", name, err)
		}
	}
}

// TestDamagedView: what the host saw of others is no more than a help. Without it the host
// claims nothing for a while, as after a restored store.
func TestDamagedView(t *testing.T) {
	m := newMachine(t, &storetest.Fake{}, nil, "")
	claimed, err := claim(t, m.Leases, ipam.IPv4)
	if err != nil {
		t.Fatal(err)
	}
	write(t, m.path("view.json"), half(read(t, m.path("view.json"))))
	if got, err := claim(t, m.Leases, ipam.IPv4); !errors.Is(err, ipam.ErrExhausted) || !strings.Contains(err.Error(), "40s after") {
		t.Errorf("claimed %s, %v, want nothing for 40s", got, err)
	}
	if err := m.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	m.requireOpen(t, claimed)
}

// leased has a lease of each block.
type leased struct{ addresses }

func (leased) LastUse(ipam.Block) (int, time.Time, error) { return 1, time.Time{}, nil }

// TestRecordsAreRemoved: a block of which addresses are in use is not taken from the host that
// has lost its records.
func TestRecordsAreRemoved(t *testing.T) {
	store := &storetest.Fake{}
	m := newMachine(t, store, nil, "")
	claimed, err := claim(t, m.Leases, ipam.IPv4)
	if err := errors.Join(err, os.Remove(m.path("blocks.json"))); err != nil {
		t.Fatal(err)
	}
	m.Leases = block.New(block.Options{Config: m.config, Addresses: leased{}, Connect: m.Connect})
	for range 2 { // at first another machine may have claimed it
		m.age(t)
		reclaimed, err := m.Reclaim(t.Context(), 0, func(context.Context, string) (bool, error) { return true, nil })
		if err := errors.Join(err, m.Verify(t.Context())); err != nil || len(reclaimed) > 0 {
			t.Errorf("reclaimed %v, %v, want nothing", reclaimed, err)
		}
	}
	m.requireOpen(t, claimed)
}

// requireOpen requires that addresses of one block are given out.
func (m *machine) requireOpen(t *testing.T, want ipam.Block) {
	t.Helper()
	o, err := m.Overview()
	if err != nil || fmt.Sprint(o.Open()) != fmt.Sprint([]ipam.Block{want}) {
		t.Errorf("open are %+v, %v, want %s", o, err, want)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
