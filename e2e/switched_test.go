// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// clearLegacyTables removes what plugins leave because all attachments share it.
func clearLegacyTables(t *testing.T) {
	t.Helper()
	onLegacyTables(t, "-F")
	onLegacyTables(t, "-X")
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
			clearLegacyTables(t)
		})
	}
}

// hidePrograms takes the programs away whose names begin with one of the prefixes, as a package that is removed.
func hidePrograms(t *testing.T, prefixes ...string) (restore func()) {
	t.Helper()
	dir, path := t.TempDir(), os.Getenv("PATH")
	for _, from := range filepath.SplitList(path) {
		list, _ := os.ReadDir(from) // it may be missing
		for _, program := range list {
			hidden := slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(program.Name(), p) })
			if err := os.Symlink(filepath.Join(from, program.Name()), filepath.Join(dir, program.Name())); !hidden && err != nil && !os.IsExist(err) {
				t.Fatal(err)
			} else if hidden {
				_ = os.Remove(filepath.Join(dir, program.Name())) // the link may be another one's
			}
		}
	}
	t.Setenv("PATH", dir)
	return func() { t.Setenv("PATH", path) }
}

// TestLongIPTablesGone: the programs that made rules are removed from the host. A teardown cannot see what is left, says so, and
// keeps the record; with the programs it leaves nothing. Rules of others, which need them as well, do not count.
func TestLongIPTablesGone(t *testing.T) {
	for name, test := range map[string]struct {
		kind    string
		backend string
		hidden  []string
	}{
		"nft, and there is legacy": {"nft", "iptables", []string{"iptables-nft", "ip6tables-nft"}},
		"legacy, and there is nft": {"legacy", "iptables", []string{"iptables-legacy", "ip6tables-legacy"}},
		"nft, and there is none":   {"nft", "iptables", []string{"iptables", "ip6tables"}},
		"nftables by plugins":      {"nft", "nftables", []string{"nft"}},
	} {
		t.Run(name, func(t *testing.T) {
			onLegacyTables(t, "-S") // makes them
			h := newHost(t)
			tables := sandbox.Run(t, "nft", "list", "tables")
			useIPTables(t, test.kind)
			sandbox.WriteFile(t, h.conf+"/60-gone.conflist", `{"cniVersion": "1.0.0", "name": "gone", "plugins": [
				{"type": "bridge", "bridge": "gone0", "isGateway": true, "ipMasq": true, "ipMasqBackend": "`+test.backend+`",
				 "ipam": {"type": "host-local", "dataDir": "/run/gone-leases", "subnet": "10.98.0.0/24"}},
				{"type": "portmap", "backend": "`+test.backend+`", "capabilities": {"portMappings": true}}]}`)
			rules := func() string {
				return sandbox.Run(t, "sh", "-c", "iptables-"+test.kind+`-save | grep 's1' || true; nft list ruleset | grep s1 || true`)
			}
			h.attach("s1", "--primary", "gone", "--publish", "8310:80")
			if rules() == "" {
				t.Fatal("it has no rules")
			}
			if test.kind == "legacy" {
				useIPTables(t, "nft")
			} else if test.hidden[0] == "iptables-nft" {
				useIPTables(t, "legacy")
			}
			restore := hidePrograms(t, test.hidden...)
			out := h.allocnet("detach", "s1")
			restore()
			left := rules()
			if (out.code == 0) != (left == "") || out.code != 0 && !strings.Contains(out.stderr, " is not installed") {
				t.Errorf("%+v\nleft:\n%s", out, left)
			}
			h.must("detach", "s1")
			if left := rules(); left != "" {
				t.Errorf("with the programs there are left\n%s", left)
			}
			clearLegacyTables(t)
			sandbox.Run(t, "ip", "link", "delete", "gone0")
			for table := range strings.Lines(sandbox.Run(t, "nft", "list", "tables")) {
				if strings.Contains(table, " cni_") && !strings.Contains(tables, table) { // what attachments share stays
					sandbox.Run(t, "nft", "delete "+table)
				}
			}
		})
	}
}
