// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// TestMissingStateDir: a state directory that is named and missing is refused by commands for what
// exists, and not made. That of the environment may be missing.
func TestMissingStateDir(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "typo")
	for _, command := range []string{
		"status", "map", "check a", "repair", "repair a", "detach a", "gc --dry-run", "cleanup a", "doctor", "events",
		"cluster status", "cluster leave --yes", "ipam show", "networks",
	} {
		code, _, errs := runs(t, slices.Concat(strings.Fields(command), []string{"--state-dir", missing})...)
		if want := `--state-dir "` + missing + `": no such directory: want`; code != cli.ExitRefused || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, want %d: %s", command, code, cli.ExitRefused, errs)
		}
		if _, err := os.Lstat(missing); err == nil {
			t.Fatalf("%s makes %s", command, missing)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runs(t, "status", "--state-dir", file); code != cli.ExitRefused || !strings.Contains(errs, `--state-dir "`+file+`": no such directory`) {
		t.Errorf("a file: exit code %d: %s", code, errs)
	}
	t.Setenv("ALLOCNET_STATE_DIR", missing)
	if code, _, errs := runs(t, "status"); code != cli.ExitDone {
		t.Errorf("of the environment: exit code %d: %s", code, errs)
	}
}

// TestExecInDamagedState: an exit code of 1 would be the command's.
func TestExecInDamagedState(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "allocations"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runs(t, "exec", "a", "--state-dir", dir, "--", "true"); code != exitRunFailed {
		t.Errorf("exit code %d, want %d: %s", code, exitRunFailed, errs)
	}
}
