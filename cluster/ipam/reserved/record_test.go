// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
	"github.com/allocnet/allocnet/internal/files"
)

// TestRecordIsNoPipe: pipes in the place of a record, of the lock and of what is remembered are
// refused at once.
func TestRecordIsNoPipe(t *testing.T) {
	dir, address := t.TempDir(), netip.MustParseAddr("10.0.0.5")
	for _, name := range []string{recordName(address), "lock", memoryName} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := directory(dir)
	if _, err := d.read(address); !errors.Is(err, files.ErrNotRegular) {
		t.Errorf("read: %v", err)
	}
	if _, err := d.replace(t.Context(), address, nil, nil); !errors.Is(err, files.ErrNotRegular) {
		t.Errorf("replace: %v", err)
	}
	if m, err := d.remembered(); err != nil || m.Highest != 0 {
		t.Errorf("remembered: %+v, %v", m, err)
	}
}

// TestFormat: records of each version are read, and what is written now has the keys of the golden file of its version: a
// change of the format needs another version.
func TestFormat(t *testing.T) {
	address := netip.MustParseAddr("10.0.0.17")
	dir := directory(t.TempDir())
	path := filepath.Join(string(dir), recordName(address))
	storetest.Golden(t, fmt.Sprintf("testdata/record-%d.json", recordVersion), &file{})
	for version := range recordVersion + 1 {
		golden, err := os.ReadFile(fmt.Sprintf("testdata/record-%d.json", version))
		if err := errors.Join(err, os.WriteFile(path, golden, 0o600)); err != nil {
			t.Fatal(err)
		}
		r, err := dir.read(address)
		if err != nil || r == nil || r.State != releasing || r.Index != 7 || r.Content.Owner.ContainerID != "a" {
			t.Errorf("version %d: %+v, %v", version, r, err)
		}
		if _, err := dir.replace(t.Context(), address, r, r); err != nil {
			t.Fatal(err)
		}
		if written, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(written), fmt.Sprintf(`{"version":%d,`, max(version, unpublishedVersion))) {
			t.Errorf("version %d is written as\n%s, %v", version, written, err)
		}
	}
}

// TestFormatOfMemory: the same of what is remembered, of which a later version is neither nothing nor damaged.
func TestFormatOfMemory(t *testing.T) {
	dir := directory(t.TempDir())
	path := filepath.Join(string(dir), memoryName)
	storetest.Golden(t, fmt.Sprintf("testdata/memory-%d.json", memoryVersion), &memory{})
	for version := range memoryVersion + 1 {
		golden, err := os.ReadFile(fmt.Sprintf("testdata/memory-%d.json", version))
		if err := errors.Join(err, os.WriteFile(path, golden, 0o600)); err != nil {
			t.Fatal(err)
		}
		if m, err := dir.remembered(); err != nil || m.Highest != 9 || m.Entries[netip.MustParseAddr("10.0.0.17")].Index != 7 {
			t.Errorf("version %d: %+v, %v", version, m, err)
		}
	}
	c := newCluster(t)
	h := c.newHost(1)
	h.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	path = filepath.Join(string(h.records.(directory)), memoryName)
	later := `{"version":2,"entries":[]}`
	if err := os.WriteFile(path, []byte(later), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), path+": version is 2, want at most 1") {
		t.Errorf("verify: %v", err)
	}
	if data, err := os.ReadFile(path); string(data) != later || err != nil {
		t.Errorf("what is remembered is %s, %v", data, err)
	}
}

// TestLaterRecord: a record of a later release is not taken for none.
func TestLaterRecord(t *testing.T) {
	c := newCluster(t)
	h := c.newHost(1)
	h.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
	path := filepath.Join(string(h.records.(directory)), recordName(netip.MustParseAddr("10.0.0.17")))
	later := `{"version":3,"content":[]}`
	if err := os.WriteFile(path, []byte(later), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errVerify := h.Verify(t.Context())
	for what, err := range map[string]error{"free": h.Free(t.Context(), attachment("a")), "finish": h.Finish(t.Context()), "verify": errVerify} {
		if err == nil || !strings.Contains(err.Error(), path+": version is 3, want at most 2") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got, err := h.take(allocation("b", "web", "10.0.0.18")); err == nil {
		t.Errorf("another attachment gets %s", got)
	}
	if data, err := os.ReadFile(path); string(data) != later || err != nil {
		t.Errorf("the record is %s, %v", data, err)
	}
	if e := c.entryOf(t, "10.0.0.17"); e.State != ipam.Held {
		t.Errorf("the entry is %+v", e)
	}
}
