// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// useIPTables lets the programs of iptables be those of a kind, as the alternatives of Debian do.
func useIPTables(t *testing.T, kind string) {
	t.Helper()
	dir := t.TempDir()
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			path, err := exec.LookPath(family + "-" + kind + suffix)
			if err == nil {
				err = os.Symlink(path, filepath.Join(dir, family+suffix))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func onLegacyTables(t *testing.T, command string) {
	t.Helper()
	for _, program := range []string{"iptables-legacy", "ip6tables-legacy"} {
		for _, table := range []string{"nat", "filter"} {
			sandbox.Run(t, program, "-t", table, command)
		}
	}
}

// TestIPTablesSwitched: iptables becomes the other kind, by update-alternatives or an upgrade, while an allocation has
// rules. They work, so it is whole; it can be repaired, and its teardown leaves none.
func TestIPTablesSwitched(t *testing.T) {
	for _, kinds := range [][2]string{{"nft", "legacy"}, {"legacy", "nft"}} {
		t.Run(kinds[0]+" to "+kinds[1], func(t *testing.T) {
			onLegacyTables(t, "-S") // makes them
			h := newHost(t)
			useIPTables(t, kinds[0])
			h.attach("s1", "--primary", "web", "--publish", "8310:80")
			rules := func() string {
				return sandbox.Run(t, "sh", "-c", "iptables-"+kinds[0]+`-save | grep 'id: .*s1' || true`)
			}
			before := rules()
			if before == "" {
				t.Fatal("it has no rules")
			}
			useIPTables(t, kinds[1])
			h.must("check", "s1")
			h.must("repair", "--dry-run", "s1")
			sandbox.Run(t, "iptables-"+kinds[0], "-t", "nat", "-F", "CNI-HOSTPORT-DNAT")
			h.must("repair", "s1")
			h.must("check", "s1")
			if after := rules(); strings.Count(after, "\n") != strings.Count(before, "\n") {
				t.Errorf("before:\n%s\nafter the repair:\n%s", before, after)
			}
			h.must("detach", "s1")
			if left := rules(); left != "" {
				t.Errorf("left are\n%s", left)
			}
			onLegacyTables(t, "-F") // plugins leave what all attachments share
			onLegacyTables(t, "-X")
		})
	}
}
