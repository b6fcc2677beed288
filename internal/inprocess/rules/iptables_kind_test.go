// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// useIPTables makes a program that iptables-restore is a link to; empty: none.
func useIPTables(t *testing.T, program string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if program == "" {
		return
	}
	for _, name := range []string{"iptables", "iptables-restore", "ip6tables", "ip6tables-restore"} {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, program), nil, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestIPTablesKind: the programs of a kind are those that have its name, unless the host's iptables is that kind.
func TestIPTablesKind(t *testing.T) {
	for program, now := range map[string]Kind{"xtables-nft-multi": KindNFT, "xtables-legacy-multi": KindLegacy, "iptables-wrapper": "", "": ""} {
		useIPTables(t, program)
		if got := CurrentKind(); got != now {
			t.Errorf("%s: %q, want %q", program, got, now)
		}
		for _, made := range []Kind{KindNFT, KindLegacy, ""} {
			want := "iptables-restore"
			switched := made != "" && made != now && program != "iptables-wrapper"
			if switched {
				want = "iptables-" + string(made) + "-restore"
			}
			if got := made.program(netfilter.IPv4, "-restore"); got != want {
				t.Errorf("%q while the host has %q: %s, want %s", made, program, got, want)
			}
			if got := made.program(netfilter.IPv6, ""); got != "ip6"+want[2:len(want)-len("-restore")] {
				t.Errorf("%q while the host has %q: %s for IPv6", made, program, got)
			}
			h := &iptablesHost{iptablesProgram: iptablesProgram{kind: made, family: netfilter.IPv4}}
			h.identify()
			kind := made
			if kind == "" {
				kind = now
			}
			if h.nft != (kind != KindLegacy) || h.legacy != (kind != KindNFT) || h.missing != (program == "" || switched) {
				t.Errorf("%q while the host has %q: identified as %+v", made, program, h)
			}
		}
	}
}

// TestBackendOfRecord: what iptables has made is not looked for in another backend when iptables is gone.
func TestBackendOfRecord(t *testing.T) {
	useIPTables(t, "")
	for _, made := range []Kind{KindNFT, KindLegacy} {
		if got := Backend(t.Context(), nil, made); got != BackendIPTables {
			t.Errorf("%s: %s", made, got)
		}
	}
	configured := BackendNFTables
	if got := Backend(t.Context(), &configured, KindNFT); got != configured {
		t.Errorf("configured as %s: %s", configured, got)
	}
}
