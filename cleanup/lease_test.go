// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadLease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		content string
		owner   Owner
		wrong   string
	}{
		"10.0.0.2": {"a1\r\neth0", ownerOf("web", "a1", "eth0"), ""},
		"fd00::2":  {"a1\r\neth0", ownerOf("web", "a1", "eth0"), ""},
		"10.0.0.3": {"a1", ownerOf("web", "a1", ""), ""}, // of an old host-local
		"10.0.0.4": {"", Owner{}, "want a container ID"},
		"10.0.0.6": {"a1\r\neth0\r\nnet1", Owner{}, "want a container ID"},
		"10.0.0.5": {"../x\r\neth0", Owner{}, "want a container ID"},
		"notes":    {"a1\r\neth0", Owner{}, "not an address"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := readLease(path, []string{"web"})
		if test.wrong == "" && (err != nil || o.Owner != test.owner) {
			t.Errorf("%s: %+v, %v, want %+v", name, o.Owner, err, test.owner)
		}
		if test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%s: %v, want %q", name, err, test.wrong)
		}
	}
}

// leaseFile returns the path of a lease of network web, and what writes it.
func leaseFile(t *testing.T) (path string, write func(text string)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "web")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "10.0.0.2")
	return path, func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLeaseChangedMeanwhile: an address that was given to another since the
// scan stays with that one.
func TestLeaseChangedMeanwhile(t *testing.T) {
	path, write := leaseFile(t)
	write("a1\r\neth0")
	o, err := readLease(path, []string{"web"})
	if err != nil {
		t.Fatal(err)
	}
	write("a2\r\neth0")
	f := &scanResult{leaseDirs: []string{filepath.Dir(path)}}
	if failures := f.remove(context.Background(), []Object{o}); len(failures) != 1 {
		t.Errorf("failures %v, want one", failures)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "a2\r\neth0" {
		t.Errorf("the lease is %q, %v", data, err)
	}
}

// TestRuleOfALeaseGivenAway: a rule that names an address only stays when the lease
// of the dead was freed, and given to another, since the scan.
func TestRuleOfALeaseGivenAway(t *testing.T) {
	path, write := leaseFile(t)
	write("a1\r\neth0")
	lease, err := readLease(path, []string{"web"})
	if err != nil {
		t.Fatal(err)
	}
	rule := Object{Kind: Firewall, addressOnly: true, Owner: lease.Owner, Addresses: lease.Addresses}
	f := &scanResult{leaseDirs: []string{filepath.Dir(path)}}
	if left := f.withoutReassigned([]Object{rule}, []Object{rule, lease}); len(left) != 1 {
		t.Errorf("the lease is still that of the dead, and %d rules go", len(left))
	}
	write("a2\r\neth0")
	if left := f.withoutReassigned([]Object{rule}, []Object{rule, lease}); len(left) != 0 {
		t.Errorf("another has the address, and its rule goes: %v", left)
	}
}

// TestLeaseLock waits for the process that holds host-local's lock.
func TestLeaseLock(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockLeases(context.Background(), []string{dir, dir, t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer stop()
	if _, err := lockLeases(ctx, []string{dir}); err == nil {
		t.Error("locked twice")
	}
	unlock()
	again, err := lockLeases(context.Background(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestLeaseDirTwice: a directory that two names lead to is locked once.
func TestLeaseDirTwice(t *testing.T) {
	base := t.TempDir()
	web := filepath.Join(base, "run", "web")
	if err := os.MkdirAll(web, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(web, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(base, "run"), filepath.Join(base, "var-run")); err != nil {
		t.Fatal(err)
	}
	dirs := leaseDirs([]string{filepath.Join(base, "run"), filepath.Join(base, "var-run"), filepath.Join(base, "none")})
	if len(dirs) != 1 {
		t.Fatalf("directories %v, want one", dirs)
	}
	unlock, err := lockLeases(t.Context(), dirs)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
