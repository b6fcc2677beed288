// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// requireNames: the pools on record, and how many subnets each has.
func requireNames(t *testing.T, table *Table, want map[string]int) {
	t.Helper()
	pools, err := table.Pools()
	have := map[string]int{}
	for _, p := range pools {
		have[p.Name] = len(p.Subnets)
	}
	if diff := gocmp.Diff(want, have); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestPools: what is on record is known to the next process, before anything is made, and until it is
// removed.
func TestPools(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	table := newTable(Options{Dir: t.TempDir() + "/new"}, f)
	requireNames(t, table, map[string]int{})
	f.left = 0
	func() {
		defer func() { _ = recover() }()
		_, _, _ = table.Device(p, local)
	}()
	f.left = -1
	next := newTable(table.o, f)
	requireNames(t, next, map[string]int{"net": 2})
	if err := next.Remove(Pool{Name: "net"}); err != nil {
		t.Fatal(err)
	}
	requireNames(t, next, map[string]int{})
}

// TestDamagedRecord: it is written anew, and without it the device is found by its alias.
func TestDamagedRecord(t *testing.T) {
	for _, text := range []string{"", "{", `{"pool":"other","subnets":["0.0.0.0/0"]}`, `{"pool":"net","subnets":["x"]}`} {
		f, p := newFake(), testPool(ipam.ModeVXLAN)
		table := start(t, f, p)
		target := to("10.60.1.0/26", "b", "192.0.2.2", macB)
		apply(t, table, p, target)
		want := f.state()
		spoil := func() {
			if err := os.WriteFile(table.recordPath("net"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		spoil()
		requireNames(t, table, map[string]int{"net": 0})
		apply(t, table, p, target)
		requireNames(t, table, map[string]int{"net": 2})
		requireState(t, f, want)
		spoil()
		if err := table.Remove(Pool{Name: "net"}); err != nil || f.link("vx-net") != nil {
			t.Errorf("%q: %v, the device is left", text, err)
		}
		apply(t, table, p, target)
		spoil()
		if err := table.Remove(p); err != nil || f.state() != "" {
			t.Errorf("%q, with the subnets: %v\n%s", text, err, f.state())
		}
		apply(t, table, p, target)
		spoil()
		if err := table.RemoveAll(); err != nil || f.state() != "" {
			t.Errorf("%q: %v\n%s", text, err, f.state())
		}
	}
}

// TestKilledWriter: what a process leaves that was killed while it wrote a record goes with the pool,
// also if there was no record before.
func TestKilledWriter(t *testing.T) {
	remove := map[string]func(*Table) error{
		"remove":     func(t *Table) error { return t.Remove(Pool{Name: "net"}) },
		"remove all": (*Table).RemoveAll,
	}
	for name, remove := range remove {
		for _, left := range [][]string{{".net.json.new"}, {"net.json", ".net.json.new"}} {
			table := newTable(Options{Dir: t.TempDir()}, newFake())
			for _, file := range left {
				if err := os.WriteFile(filepath.Join(table.o.Dir, file), []byte(`{"po`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			requireNames(t, table, map[string]int{"net": 0})
			if err := remove(table); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if files, err := os.ReadDir(table.o.Dir); len(files) > 0 || err != nil {
				t.Errorf("%s of %q: %v, %v are left", name, left, err, files)
			}
		}
	}
}

// TestFormat: a record of each version is read. One of a later release stays, as does what is made for its pool.
func TestFormat(t *testing.T) {
	storetest.Golden(t, fmt.Sprintf("testdata/record-%d.json", recordVersion), &record{})
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	table := start(t, f, p)
	for version := range recordVersion + 1 {
		golden, err := os.ReadFile(fmt.Sprintf("testdata/record-%d.json", version))
		if err := errors.Join(err, os.WriteFile(table.recordPath("net"), golden, 0o600)); err != nil {
			t.Fatal(err)
		}
		if r, err := table.readRecord("net"); err != nil || r.Device != "vx-net" || len(r.Subnets) != 1 {
			t.Errorf("version %d: %+v, %v", version, r, err)
		}
	}
	apply(t, table, p, to("10.60.1.0/26", "b", "192.0.2.2", macB))
	before := f.state()
	later := fmt.Sprintf(`{"version":%d,"subnets":{}}`, recordVersion+1)
	if err := os.WriteFile(table.recordPath("net"), []byte(later), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errPools := table.Pools()
	for what, err := range map[string]error{"remove": table.Remove(p), "remove all": table.RemoveAll(), "pools": errPools} {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s: version is %d, want at most %d", table.recordPath("net"), recordVersion+1, recordVersion)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if data, err := os.ReadFile(table.recordPath("net")); err != nil || string(data) != later || f.state() != before {
		t.Errorf("the record is %s, %v, and there is\n%s\nwant\n%s", data, err, f.state(), before)
	}
}
