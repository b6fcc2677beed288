// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/state"
)

// Patterns of the catalogue.
var (
	tuningFiles = patternsOf("tuning").files[0]
	hostport    = patternsOf("portmap").tables[0]
)

func patternsOf(name string) *leak {
	p := catalogue.find(name)
	return p.leaves[0]
}

// requireSafe holds an owner that was read somewhere to names that stay within
// directories.
func requireSafe(t *testing.T, o Object) {
	t.Helper()
	if id := o.Owner.Allocation; id != "" && state.ValidateID(id) != nil {
		t.Errorf("%s is of allocation %q", o.Where, id)
	}
	if strings.ContainsAny(o.Owner.Network+o.Owner.Interface, "/\x00") {
		t.Errorf("%s is of %+v", o.Where, o.Owner)
	}
}

// FuzzComment: a comment in nftables names an owner that its hash proves, or
// where there is no hash, a container ID and nothing else.
func FuzzComment(f *testing.F) {
	o := ownerOf("web", "a1", "eth0")
	f.Add(instance(o) + ", net: web, if: eth0, id: a1")
	f.Add(instance(o) + ", net: web, if: eth0, id: a2")
	f.Add("a1")
	f.Add("../a1")
	f.Fuzz(func(t *testing.T, comment string) {
		for kind, table := range map[Kind]nftTable{Masquerade: masquerade.tables[0], Ports: hostport} {
			o := table.object(kind, nftRule{chain: table.chains[0], comment: comment, handle: 1})
			requireSafe(t, o)
			if kind == Masquerade && o.Owner != (Owner{}) && !strings.HasPrefix(comment, instance(o.Owner)) {
				t.Errorf("%q is taken for %+v", comment, o.Owner)
			}
			if kind == Ports && o.Owner.ContainerID != "" && o.Owner.ContainerID != comment {
				t.Errorf("%q is taken for %+v", comment, o.Owner)
			}
		}
	})
}

// FuzzLease: what is read as a lease is a file of its directory, of an address,
// and of an allocation that its content begins with.
func FuzzLease(f *testing.F) {
	f.Add("10.0.0.2", "a1\r\neth0")
	f.Add("fd00::2", "a1")
	f.Add("fe80::1%..", "../a\neth0")
	f.Add("fe80::1%..", "a1\neth0")
	f.Add("10.0.0.3", "a1\n../eth0")
	f.Add("last_reserved_ip.0", "10.0.0.2")
	dir := filepath.Join(f.TempDir(), "web")
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, content string) {
		if name != filepath.Base(name) || len(name) > 200 || strings.ContainsAny(name, "/\x00") || strings.Trim(name, ".") == "" {
			return // no file has such a name
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		found := scanLeases(dir, []string{"web"})
		for _, o := range found.Objects {
			requireSafe(t, o)
			if o.Where != path || o.Owner.Network != "web" || o.Owner.Allocation == "" || o.Addresses[0].String() == "" || o.Addresses[0].Zone() != "" {
				t.Errorf("%q with %q is %+v", name, content, o)
			}
			if fields := strings.Fields(content); fields[0] != o.Owner.ContainerID {
				t.Errorf("%q is of %q", content, o.Owner.ContainerID)
			}
			if err := o.file.remove(); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzCache reads libcni's cached results.
func FuzzCache(f *testing.F) {
	f.Add([]byte(`{"kind": "cniCacheV1", "containerId": "a1", "networkName": "web", "ifName": "eth0", "config": "e30=", "netns": "/run/netns/a1", "result": {"ips": [{"address": "10.0.0.2/24"}]}}`))
	f.Add([]byte(`{"containerId": "../a1", "networkName": "../web"}`))
	f.Add([]byte(`{"containerId": "a1", "networkName": "../web", "config": "e30="}`))
	// a relative dataDir
	f.Add([]byte(`{"containerId": "a1", "networkName": "web", "config": "eyJwbHVnaW5zIjogW3sidHlwZSI6ICJ4IiwgImlwYW0iOiB7ImRhdGFEaXIiOiAieCJ9fV19"}`))
	dir := f.TempDir()
	path := filepath.Join(dir, "results", "web-a1-eth0")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		found, conflists := scanCache(dir)
		for _, o := range found.Objects {
			requireSafe(t, o)
			if o.Where != path || o.Owner.Allocation == "" {
				t.Errorf("%q is %+v", content, o)
			}
		}
		for _, dir := range []directory{tuningFiles.in, {configured: ipamDataDir}} {
			for _, path := range dir.list(conflists) {
				if !filepath.IsAbs(path) {
					t.Errorf("%q has files in %q", content, path)
				}
			}
		}
	})
}

// TestLinksAndPipes where plugins keep files are reported, neither followed nor
// waited for, and left.
func TestLinksAndPipes(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	leases, tuning, results := filepath.Join(dir, "web"), filepath.Join(dir, "tuning"), filepath.Join(dir, "results")
	cached, err := json.Marshal(cached{ContainerID: "a1", Network: "web", Interface: "eth0"})
	if err != nil {
		t.Fatal(err)
	}
	for place, text := range map[string]string{leases: "a1\r\neth0", tuning: "{}", results: string(cached)} {
		if err := os.Mkdir(place, 0o700); err != nil {
			t.Fatal(err)
		}
		target := victim + filepath.Base(place)
		if err := os.WriteFile(target, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, make := range map[string]func(string) error{
			"link": func(path string) error { return os.Symlink(target, path) },
			"pipe": func(path string) error { return unix.Mkfifo(path, 0o600) },
		} {
			path := filepath.Join(place, map[string]string{
				leases + "link": "10.0.0.2", leases + "pipe": "10.0.0.3", tuning + "link": "a1_eth0.json", tuning + "pipe": "a1_eth1.json",
				results + "link": "web-a1-eth0", results + "pipe": "web-a1-eth1",
			}[place+name])
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			if err := (&file{path: path, content: text}).remove(); err == nil {
				t.Errorf("the %s %s is removed", name, path)
			}
		}
	}
	fromCache, _ := scanCache(dir)
	for _, found := range []scanResult{scanLeases(leases, []string{"web"}), tuningFiles.scan(tuning, Tuning), fromCache} {
		if len(found.Objects) != 0 || len(found.Problems) != 2 {
			t.Errorf("found %+v, problems %v, want two problems alone", found.Objects, found.Problems)
		}
	}
	if err := os.Symlink(victim, filepath.Join(leases, "lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := lockLeases(context.Background(), []string{leases}); err == nil {
		t.Error("locked through a link")
	}
}

// TestAmbiguousNames: a file name that fits two allocations belongs to neither. The
// interface that one allocation chooses does not give it files of another.
func TestAmbiguousNames(t *testing.T) {
	attacker := ownerOf("web", "a", "1_eth0")
	victim := ownerOf("web", "a_1", "eth0")
	objects := []Object{
		{Kind: Tuning, nameOnly: true, key: tuningFile(victim), Owner: ownerOf("", "a_1", "eth0")},
		{Kind: Masquerade, key: masqueradeChain(ownerOf("web", "1a", "")), Owner: ownerOf("web", "1a", "")},
		{Kind: Link, key: ifbDevice(ownerOf("web", "1a", ""))},
	}
	attribute(catalogue, objects, []Owner{victim, attacker, ownerOf("web", "1a", ""), ownerOf("web1", "a", "")})
	if objects[0].Owner != (Owner{}) || objects[2].Owner != (Owner{}) {
		t.Errorf("a name of two allocations is taken for one's: %+v", objects)
	}
	if objects[1].Owner != (ownerOf("web", "1a", "")) {
		t.Errorf("the owner that a comment proves is now %+v", objects[1].Owner)
	}
}
