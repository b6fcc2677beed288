// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package networkstatus

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/hook"
)

func allocation() *hook.Allocation {
	return &hook.Allocation{ID: "a1", Attachments: []hook.Attachment{
		{Network: "web", Interface: "eth0", Primary: true, Observed: hook.Observed{
			Addresses: []netip.Prefix{netip.MustParsePrefix("10.88.0.2/16")}, MAC: "02:00:00:00:00:01", MTU: 1500,
			Gateways: []netip.Addr{netip.MustParseAddr("10.88.0.1")},
		}},
		{Network: "storage", Interface: "net1", Observed: hook.Observed{Addresses: []netip.Prefix{netip.MustParsePrefix("fd00::2/64")}}},
	}}
}

func TestWriteAndRemove(t *testing.T) {
	shared, err := SharedDir(t.TempDir(), "a1")
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(shared, allocation()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no allocation: %v, want ErrNotExist", err)
	}
	if err := Remove(shared); err != nil {
		t.Errorf("no allocation: %v", err)
	}
	if err := os.MkdirAll(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second replaces the first
		if err := Write(shared, allocation()); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(shared, File))
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := []any{
		map[string]any{"name": "web", "interface": "eth0", "ips": []any{"10.88.0.2"}, "mac": "02:00:00:00:00:01", "mtu": 1500.0, "default": true, "dns": map[string]any{}, "gateway": []any{"10.88.0.1"}},
		map[string]any{"name": "storage", "interface": "net1", "ips": []any{"fd00::2"}, "dns": map[string]any{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// The agent's, and what killed writers leave.
	for _, name := range []string{HostsFile, "." + HostsFile + ".new", "." + File + ".new", "." + EnvFile + ".new", "." + File + ".existing.new"} {
		if err := os.WriteFile(filepath.Join(shared, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := Remove(shared); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(shared); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestLinksAreNotFollowed: tasks may write to the shared directory.
func TestLinksAreNotFollowed(t *testing.T) {
	data := t.TempDir()
	shared := filepath.Join(data, "alloc", "a1", "alloc")
	victim := filepath.Join(data, "victim")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{File, "." + File + ".new", EnvFile} {
		if err := os.Symlink(victim, filepath.Join(shared, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Write(shared, allocation()); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("what the link led to is now %q, %v", text, err)
	}
	if err := Remove(shared); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(victim); err != nil {
		t.Errorf("what a link led to was removed: %v", err)
	}
	for _, id := range []string{"../a1", "a1/../a1", "", "."} {
		if dir, err := SharedDir(data, id); err == nil {
			t.Errorf("%q: the path %s is taken for an ID", id, dir)
		}
	}
}

// TestErrors: the error names the file, and the old content stays.
func TestErrors(t *testing.T) {
	data := t.TempDir()
	shared := filepath.Join(data, "alloc", "a1", "alloc")
	if err := os.MkdirAll(filepath.Dir(shared), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(shared, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(shared, allocation()); err == nil || !strings.Contains(err.Error(), shared) {
		t.Errorf("write where the shared directory is a file: %v", err)
	}
	if err := Remove(shared); err == nil || !strings.Contains(err.Error(), shared) {
		t.Errorf("remove where the shared directory is a file: %v", err)
	}
	root, err := os.OpenRoot(filepath.Dir(shared))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := Replace(root, "alloc/x", nil); err == nil || !strings.HasPrefix(err.Error(), "write "+shared+"/x: ") {
		t.Errorf("replace below a file: %v, want the path", err)
	}
}

// TestDirectoryInTheWay: a task cannot keep the file from being written, or the
// allocation from being taken down.
func TestDirectoryInTheWay(t *testing.T) {
	data := t.TempDir()
	shared := filepath.Join(data, "alloc", "a1", "alloc")
	victim := filepath.Join(data, "victim")
	occupy := func() {
		t.Helper()
		for _, name := range []string{File, "." + File + ".new", EnvFile} {
			dir := filepath.Join(shared, name, "full")
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(data, filepath.Join(dir, "link"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	occupy()
	if err := Write(shared, allocation()); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(filepath.Join(shared, File)); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the file is %v, %v", info, err)
	}
	if err := Remove(shared); err != nil {
		t.Fatal(err)
	}
	occupy()
	if err := Remove(shared); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(shared, File+".*", "full")); err != nil || len(left) != 2 { // of Write and of Remove
		t.Errorf("left: %q, %v: a task's directory was emptied, which has no end if the task wants that", left, err)
	}
	if _, err := os.Stat(victim); err != nil {
		t.Errorf("a link inside was followed: %v", err)
	}
}
