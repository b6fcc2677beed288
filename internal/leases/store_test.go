// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package leases

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/plugins/plugins/ipam/host-local/backend/disk"
	"github.com/google/go-cmp/cmp"
)

// tester makes the leases of a network "net", for eth0 of containers.
type tester struct {
	t   testing.TB
	dir string
}

func (t tester) open() *Store {
	t.t.Helper()
	store, err := Open(t.t.Context(), t.dir, "net")
	if err != nil {
		t.t.Fatal(err)
	}
	return store
}

// add gives the container cN the address 10.1.0.N+2.
func (t tester) add(id string) {
	t.t.Helper()
	store := t.open()
	defer store.Close()
	var number byte
	_, _ = fmt.Sscanf(id, "c%d", &number)
	if found := store.GetByID(id, "eth0"); found != nil {
		t.t.Fatalf("%s has %v", id, found)
	}
	if made, err := store.Reserve(id, "eth0", net.IPv4(10, 1, 0, number+2), "0"); err != nil || !made {
		t.t.Fatalf("lease of %s: %v, %v", id, made, err)
	}
}

func (t tester) del(id string) {
	store := t.open()
	defer store.Close()
	_ = store.ReleaseByID(id, "eth0")
}

func (t tester) check(id string) bool {
	store := t.open()
	defer store.Close()
	return len(store.GetByID(id, "eth0")) > 0
}

func (t tester) addresses(id string) []net.IP {
	store := t.open()
	defer store.Close()
	return store.GetByID(id, "eth0")
}

// pluginAddresses are what the plugin's library finds.
func pluginAddresses(t testing.TB, dir, id string) []net.IP {
	t.Helper()
	store, err := disk.New("net", dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	return store.GetByID(id, "eth0")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestIndex: an index is used only as long as the directory is as it was.
func TestIndex(t *testing.T) {
	for name, test := range map[string]struct {
		change func(dir string) error
		used   bool
	}{
		"nothing":         {func(string) error { return nil }, true},
		"a CHECK":         {func(dir string) error { tester{t, filepath.Dir(dir)}.check("c1"); return nil }, true},
		"a lease is made": {func(dir string) error { return os.WriteFile(dir+"/10.1.0.60", nil, 0o600) }, false},
		"a lease is made, and the time restored": {func(dir string) error {
			info, err := os.Stat(dir)
			return errors.Join(err, os.WriteFile(dir+"/10.1.0.60", nil, 0o600), os.Chtimes(dir, time.Time{}, info.ModTime()))
		}, false},
		"a lease is removed":    {func(dir string) error { return os.Remove(dir + "/10.1.0.5") }, false},
		"a lease is replaced":   {func(dir string) error { return os.Rename(dir+"/10.1.0.5", dir+"/10.1.0.6") }, false},
		"a directory is made":   {func(dir string) error { return os.Mkdir(dir+"/old", 0o700) }, false},
		"the index is cut":      {func(dir string) error { return os.Truncate(indexPath(dir), 100) }, false},
		"the index is empty":    {func(dir string) error { return os.Truncate(indexPath(dir), 0) }, false},
		"the index has changed": {func(dir string) error { return overwrite(indexPath(dir), 40) }, false},
		"the directory is new": {func(dir string) error {
			info, err := os.Stat(dir)
			return errors.Join(err, os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old")), os.Chtimes(dir, time.Time{}, info.ModTime()))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tested := tester{t, t.TempDir()}
			dir := filepath.Join(tested.dir, "net")
			for i := range minIndexed {
				tested.add(fmt.Sprint("c", i))
			}
			if readIndex(dir) == nil {
				t.Fatal("there is no index")
			}
			if err := test.change(dir); err != nil {
				t.Fatal(err)
			}
			if used := readIndex(dir) != nil; used != test.used {
				t.Errorf("the index is used: %v, want %v", used, test.used)
			}
			if want := pluginAddresses(t, tested.dir, "c3"); !cmp.Equal(tested.addresses("c3"), want) {
				t.Errorf("addresses %v, want %v", tested.addresses("c3"), want)
			}
		})
	}
}

// overwrite changes one byte of a file.
func overwrite(path string, at int) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	data[at] ^= 1
	return os.WriteFile(path, data, 0o600)
}

// TestIndexVerified: what the index finds is read: an administrator's change of a lease
// in place, which leaves the directory as it is, is noticed.
func TestIndexVerified(t *testing.T) {
	tested := tester{t, t.TempDir()}
	for i := range minIndexed {
		tested.add(fmt.Sprint("c", i))
	}
	lease := filepath.Join(tested.dir, "net", tested.addresses("c3")[0].String())
	if err := os.WriteFile(lease, []byte("c3"), 0o600); err != nil {
		t.Fatal(err)
	}
	tested.del("c3")
	if _, err := os.Stat(lease); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lease is left: %v", err)
	}
}

// TestLeaseOfAnotherOwner: a lease that has got another owner in place is not that of the owner in
// the index any more, and outlives it.
func TestLeaseOfAnotherOwner(t *testing.T) {
	tested := tester{t, t.TempDir()}
	for i := range minIndexed {
		tested.add(fmt.Sprint("c", i))
	}
	lease := filepath.Join(tested.dir, "net", tested.addresses("c3")[0].String())
	if err := os.WriteFile(lease, []byte(leaseContent("other", "eth0")), 0o600); err != nil {
		t.Fatal(err)
	}
	if tested.check("c3") {
		t.Error("CHECK of the owner in the index succeeds")
	}
	tested.del("c3")
	if !tested.check("other") || !exists(lease) {
		t.Error("the lease is released by the owner in the index")
	}
}

// TestLargeLease: of a lease as large as only damage makes one no more is read than of any other.
// It is no owner's, and the address is leased.
func TestLargeLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "10.0.0.2")
	if err := os.WriteFile(path, []byte("c1\r\neth0"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 16<<20); err != nil {
		t.Fatal(err)
	}
	if got, err := readLease(path); err != nil || len(got) != mostBytes {
		t.Errorf("read %d bytes, %v, want %d", len(got), err, mostBytes)
	}
	if made, err := createLease(path, "c2"); made || err != nil {
		t.Errorf("another lease: %t, %v", made, err)
	}
}

// TestStamp: the directory's time is one that the kernel does not give it again: a change in
// the moment in which the index is written shows.
func TestStamp(t *testing.T) {
	tested := tester{t, t.TempDir()}
	for i := range minIndexed {
		tested.add(fmt.Sprint("c", i))
	}
	info, err := os.Stat(filepath.Join(tested.dir, "net"))
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(info.ModTime()); age < time.Second {
		t.Errorf("the directory's last change is %v ago, want 1s at least", age)
	}
}

// TestIndexRemoved: few leases have no index, and its file does not outlive them.
func TestIndexRemoved(t *testing.T) {
	tested := tester{t, t.TempDir()}
	for i := range minIndexed {
		tested.add(fmt.Sprint("c", i))
	}
	for i := range minIndexed {
		_, err := os.Stat(indexPath(filepath.Join(tested.dir, "net")))
		if exists, want := err == nil, i == 0; exists != want {
			t.Errorf("with %d leases there is an index: %v, want %v", minIndexed-i, exists, want)
		}
		tested.del(fmt.Sprint("c", i))
	}
}

// TestCreateLease: in one step, and in the plugin's steps.
func TestCreateLease(t *testing.T) {
	for name, create := range map[string]func(path, content string) (bool, error){"one": createLease, "several": createLeaseInSteps} {
		path := filepath.Join(t.TempDir(), "10.0.0.2")
		for _, want := range []bool{true, false} {
			if created, err := create(path, "c1\r\neth0"); err != nil || created != want {
				t.Errorf("%s: %v, %v, want %v", name, created, err, want)
			}
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
		if got, err := readLease(path); err != nil || got != "c1\r\neth0" {
			t.Errorf("%s: content %q, %v", name, got, err)
		}
		if _, err := create(filepath.Join(path, "10.0.0.3"), ""); err == nil {
			t.Errorf("%s: a lease in no directory", name)
		}
	}
}
