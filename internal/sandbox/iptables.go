// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	clear(warmed)
	FlushLegacy(t)
	Run(t, "nft", "flush", "ruleset")
}

// FlushLegacy empties the tables of iptables-legacy: other tests need hosts with one backend. To name a table would make
// it, and each snapshot would list it from then on.
func FlushLegacy(t testing.TB) {
	t.Helper()
	for _, family := range iptablesFamilies {
		tables, _ := os.ReadFile(family.legacy) // no module: no tables
		for _, table := range strings.Fields(string(tables)) {
			clear(warmed)
			Run(t, family.program+"-legacy", "-t", table, "-F")
			Run(t, family.program+"-legacy", "-t", table, "-X")
		}
	}
}

// iptablesFamilies are, for each program, what nft says of its tables, and the file that names those of iptables-legacy.
var iptablesFamilies = []struct{ nft, program, legacy string }{
	{"\ntable ip ", "iptables", "/proc/thread-self/net/ip_tables_names"},
	{"\ntable ip6 ", "ip6tables", "/proc/thread-self/net/ip6_tables_names"},
}
