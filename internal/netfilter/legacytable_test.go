// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestUnreadableLegacy: what cannot be read, without privileges or as there is no such table, is an error that names the table, and never
// a table without rules.
func TestUnreadableLegacy(t *testing.T) {
	for _, family := range []netfilter.Family{netfilter.IPv4, netfilter.IPv6} {
		if size, err := netfilter.LegacySize(family, "nosuch"); err == nil || !strings.Contains(err.Error(), `table "nosuch" of iptables-legacy`) {
			t.Errorf("%s: size %d, %v", family, size, err)
		}
		if entries, err := netfilter.ReadLegacy(family, "nosuch"); err == nil || !strings.Contains(err.Error(), `table "nosuch" of iptables-legacy`) {
			t.Errorf("%s: %d bytes, %v", family, len(entries), err)
		}
	}
}

// TestRootLegacyTables: those of each family are listed, with the size of their entries, and read whole while they change.
func TestRootLegacyTables(t *testing.T) {
	roottest.Require(t)
	t.Setenv("XTABLES_LOCKFILE", t.TempDir()+"/lock")
	empty, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	run := func(program string, args ...string) error {
		return empty.Do(func() error { return exec.CommandContext(t.Context(), program, args...).Run() })
	}
	for family, program := range map[netfilter.Family]string{netfilter.IPv4: "iptables-legacy", netfilter.IPv6: "ip6tables-legacy"} {
		if err := run(program, "-t", "mangle", "-N", "own"); err != nil {
			t.Fatal(err)
		}
		changed := make(chan error)
		go func() {
			var err error
			for n := 0; n < 20 && err == nil; n++ {
				err = run(program, "-t", "mangle", "-A", "own", "-j", "ACCEPT")
			}
			changed <- err
		}()
		isDone := false
		for !isDone && !t.Failed() {
			select {
			case err = <-changed:
				isDone = true
			default:
			}
			err := empty.Do(func() error {
				tables, err := netfilter.LegacyTables(family)
				if err != nil || !slices.Equal(tables, []string{"mangle"}) {
					t.Errorf("%s: tables %q, %v", program, tables, err)
				}
				before, err := netfilter.LegacySize(family, "mangle")
				if err != nil {
					return err
				}
				entries, err := netfilter.ReadLegacy(family, "mangle")
				if len(entries) < before || !strings.Contains(string(entries), "own") {
					t.Errorf("%s: %d bytes, want at least %d with the chain own", program, len(entries), before)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
