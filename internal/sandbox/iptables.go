// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PathOfIPTables returns a PATH whose iptables is of a backend, "nft" or "legacy".
func PathOfIPTables(t testing.TB, backend string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			path, err := exec.LookPath(name + "-" + backend + suffix)
			if err != nil {
				t.Fatalf("%v: run: make deps", err)
			}
			if err := os.Symlink(path, filepath.Join(dir, name+suffix)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir + ":" + os.Getenv("PATH")
}

// FlushRules removes all rules.
func FlushRules(t testing.TB) {
	t.Helper()
	FlushLegacy(t)
	Run(t, "nft", "flush", "ruleset")
}

// FlushLegacy empties the tables of iptables-legacy: other tests need hosts with one backend.
func FlushLegacy(t testing.TB) {
	t.Helper()
	clear(warmed)
	for _, program := range []string{"iptables-legacy", "ip6tables-legacy"} {
		for _, table := range []string{"nat", "filter"} {
			Run(t, program, "-t", table, "-F")
			Run(t, program, "-t", table, "-X")
		}
	}
}
