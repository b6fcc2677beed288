// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
)

// TestCreatedAtOnce: networks that are created at once get subnets of their own.
func TestCreatedAtOnce(t *testing.T) {
	const rounds, creators = 5, 6
	dir := t.TempDir()
	for round := range rounds {
		var group sync.WaitGroup
		for creator := range creators {
			group.Go(func() {
				name := fmt.Sprintf("test-%d-%d", round, creator)
				if code, _, errs := runs(t, "network", "create", name, "--type", "ptp", "--conf-dir", dir); code != cli.ExitDone {
					t.Errorf("exit code %d: %s", code, errs)
				}
			})
		}
		group.Wait()
	}
	catalog, err := cniconf.Load(dir)
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

// TestCreatedBesideShadowed: a network that has the name of another one has its addresses all the same.
func TestCreatedBesideShadowed(t *testing.T) {
	dirs := t.TempDir() + ":" + t.TempDir()
	for i, dir := range filepath.SplitList(dirs) {
		list := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "test", "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.88.%d.0/24"}}]}`, i)
		if err := os.WriteFile(filepath.Join(dir, "test.conflist"), []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	create := []string{"network", "create", "other", "--type", "ptp", "--conf-dir", dirs, "--dry-run"}
	if code, out, errs := runs(t, create...); code != cli.ExitDone || strings.Contains(out, "10.88.1.0/24") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if code, out, errs := runs(t, append(create, "--subnet", "10.88.1.0/24")...); code != cli.ExitRefused || !strings.Contains(errs, "overlaps") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}
