// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package leases

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// leased opens a network in which c1 has two leases and c2 one.
func leased(t *testing.T) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, "net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for address, id := range map[string]string{"10.0.0.2": "c1", "fd00::2": "c1", "10.0.0.3": "c2"} {
		if made, err := s.Reserve(id, "eth0", net.ParseIP(address), "0"); !made || err != nil {
			t.Fatal(made, err)
		}
	}
	return s, dir
}

// requireLeases: these addresses have one.
func requireLeases(t *testing.T, dir string, want ...string) {
	t.Helper()
	ips, err := List(dir, "net")
	var got []string
	for _, ip := range ips {
		got = append(got, ip.String())
	}
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("leased are %q, %v, want %q", got, err, want)
	}
}

// TestRemove: only the lease of an address that is the attachment's is removed, and one that cannot be read is an error.
func TestRemove(t *testing.T) {
	s, dir := leased(t)
	damaged := filepath.Join(dir, "net", "10.0.0.4")
	if err := os.Mkdir(damaged, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := s.GetByID("c1", "eth0"); len(got) != 2 {
		t.Errorf("c1 has %v", got)
	}
	for address, test := range map[string]struct{ removed, fails bool }{"10.0.0.2": {true, false}, "10.0.0.3": {}, "10.0.0.9": {}, "10.0.0.4": {false, true}} {
		if removed, err := s.Remove("c1", "eth0", net.ParseIP(address)); removed != test.removed || (err != nil) != test.fails {
			t.Errorf("%s: %t, %v", address, removed, err)
		}
		id, iface, is, err := s.Owner(net.ParseIP(address))
		if is != (address == "10.0.0.3") || is && (id != "c2" || iface != "eth0") || (err != nil) != test.fails {
			t.Errorf("%s is leased by %q, %q: %t, %v", address, id, iface, is, err)
		}
	}
	requireLeases(t, dir, "10.0.0.3", "10.0.0.4", "fd00::2")
	if got := s.GetByID("c1", "eth0"); len(got) != 1 || got[0].String() != "fd00::2" {
		t.Errorf("c1 has %v", got)
	}
	if ips, err := List(dir, "none"); len(ips) > 0 || err != nil {
		t.Errorf("of a network without a directory: %v, %v", ips, err)
	}
}

// TestRemoveByID: all leases of an attachment are removed, and no others. One that cannot be removed is an error.
func TestRemoveByID(t *testing.T) {
	s, dir := leased(t)
	if err := s.RemoveByID("c1", "eth0"); err != nil {
		t.Error(err)
	}
	requireLeases(t, dir, "10.0.0.3")
	if len(s.GetByID("c2", "eth0")) == 0 {
		t.Fatal("c2 has no lease")
	}
	lease := filepath.Join(dir, "net", "10.0.0.3")
	if err := os.Remove(lease); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(lease+"/full", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveByID("c2", "eth0"); err == nil || len(s.GetByID("c2", "eth0")) == 0 {
		t.Errorf("a lease that cannot be removed: %v", err)
	}
}

// TestIndexOf: a lease is removed from the index wherever it is in it, and what is not in it removes no other.
func TestIndexOf(t *testing.T) {
	i := &index{}
	i.add("10.0.0.2", "c1")
	i.add("10.0.0.3", "c2")
	i.remove("10.0.0.9", "c9")
	if len(i.find("c1")) != 1 || len(i.find("c2")) != 1 {
		t.Errorf("removing what is not there leaves %q", i.text)
	}
	i.remove("10.0.0.2", "c1")
	if len(i.find("c1")) != 0 || len(i.find("c2")) != 1 {
		t.Errorf("removing the first leaves %q", i.text)
	}
}

// TestLeaseOfAnOldVersion: a lease that names no interface is released by an attachment that has no other.
func TestLeaseOfAnOldVersion(t *testing.T) {
	for name, release := range map[string]func(*Store) error{
		"ReleaseByID": func(s *Store) error { return s.ReleaseByID("c1", "eth0") },
		"RemoveByID":  func(s *Store) error { return s.RemoveByID("c1", "eth0") },
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := leased(t)
			if err := os.WriteFile(filepath.Join(dir, "net", "10.0.0.7"), []byte("c1"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, left := range [][]string{{"10.0.0.3", "10.0.0.7"}, {"10.0.0.3"}} {
				if err := release(s); err != nil {
					t.Error(err)
				}
				requireLeases(t, dir, left...)
			}
		})
	}
}
