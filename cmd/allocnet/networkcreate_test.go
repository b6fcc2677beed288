// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/state"
)

// TestCreatedAtOnce: networks that are created at once, also in different directories, get subnets of their own.
func TestCreatedAtOnce(t *testing.T) {
	const rounds, creators = 5, 6
	dirs, records := []string{t.TempDir(), t.TempDir()}, t.TempDir()
	for round := range rounds {
		var group sync.WaitGroup
		for creator := range creators {
			group.Go(func() {
				name := fmt.Sprintf("test-%d-%d", round, creator)
				if code, _, errs := runs(t, "network", "create", name, "--type", "ptp", "--conf-dir", dirs[creator%len(dirs)], "--state-dir", records); code != cli.ExitDone {
					t.Errorf("exit code %d: %s", code, errs)
				}
			})
		}
		group.Wait()
	}
	catalog, err := cniconf.Load(dirs...)
	if err != nil || len(catalog.Networks) != rounds*creators {
		t.Fatalf("%d networks, %v", len(catalog.Networks), err)
	}
	for _, n := range catalog.Networks {
		others := slices.DeleteFunc(slices.Clone(catalog.Networks), func(other *cniconf.Network) bool { return other == n })
		if err := n.CheckFree(others, nil); err != nil {
			t.Errorf("network %s: %v", n.Name, err)
		}
	}
}

// TestCreatedWhereIsNoDirectory: where a network was created before, there may be something else by now.
func TestCreatedWhereIsNoDirectory(t *testing.T) {
	dirs, records := []string{filepath.Join(t.TempDir(), "former"), t.TempDir()}, t.TempDir()
	if err := os.Mkdir(dirs[0], 0o700); err != nil {
		t.Fatal(err)
	}
	for i, dir := range dirs {
		if code, _, errs := runs(t, "network", "create", fmt.Sprintf("test-%d", i), "--type", "ptp", "--conf-dir", dir, "--state-dir", records); code != cli.ExitDone {
			t.Errorf("exit code %d: %s", code, errs)
		}
		if err := errors.Join(os.RemoveAll(dirs[0]), os.WriteFile(dirs[0], nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCreatedElsewhere: who may not have a name is told how the network is removed that has it.
func TestCreatedElsewhere(t *testing.T) {
	first, records := t.TempDir(), t.TempDir()
	for dir, want := range map[string]string{first: "(allocnet network rm test)", t.TempDir(): "(allocnet network rm test --conf-dir " + first + ")"} {
		runs(t, "network", "create", "test", "--type", "ptp", "--conf-dir", first, "--state-dir", records)
		if code, _, errs := runs(t, "network", "create", "test", "--type", "ptp", "--conf-dir", dir, "--state-dir", records); code != cli.ExitRefused || !strings.Contains(errs, want) {
			t.Errorf("exit code %d: %s; want %s", code, errs, want)
		}
	}
}

// TestCreatorStopped: who creates a network does not wait without an end for another one, which may be stopped.
func TestCreatorStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, records := t.TempDir(), t.TempDir()
		store, err := state.Open(records)
		if err != nil {
			t.Fatal(err)
		}
		unlock, err := store.Networks().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, unlock)
		if code, _, errs := runs(t, "network", "create", "test", "--type", "ptp", "--conf-dir", dir, "--state-dir", records); code != cli.ExitFailed || !strings.Contains(errs, records) {
			t.Errorf("exit code %d: %s", code, errs)
		}
	})
}

// TestCreatedBesideShadowed: a network that has the name of another one has its addresses all the same.
func TestCreatedBesideShadowed(t *testing.T) {
	dirs, records := t.TempDir()+":"+t.TempDir(), t.TempDir()
	for i, dir := range filepath.SplitList(dirs) {
		list := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "test", "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.88.%d.0/24"}}]}`, i)
		if err := os.WriteFile(filepath.Join(dir, "test.conflist"), []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	create := []string{"network", "create", "other", "--type", "ptp", "--conf-dir", dirs, "--state-dir", records, "--dry-run"}
	if code, out, errs := runs(t, create...); code != cli.ExitDone || strings.Contains(out, "10.88.1.0/24") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if code, out, errs := runs(t, append(create, "--subnet", "10.88.1.0/24")...); code != cli.ExitRefused || !strings.Contains(errs, "overlaps") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}
