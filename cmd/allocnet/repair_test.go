// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
)

// TestPrintDrifts: a terminal gets short IDs and lines that fit, a pipe gets all.
func TestPrintDrifts(t *testing.T) {
	drifts := []hook.Drift{
		{Allocation: first, Interface: "eth0", Network: "web", Missing: []string{"port veth9476fcac of the bridge web0", "rule of chain CNI-DN-0123456789abcdef01234 of table nat of iptables: -p tcp -j DNAT"}},
		{Allocation: "web-1", Interface: "net1", Network: "storage", Repaired: true, Missing: []string{"bridge storage0"}},
	}
	var piped, shown strings.Builder
	if err := printDrifts(&piped, cli.Terminal{}, drifts); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(piped.String(), first+" ") || !strings.Contains(piped.String(), drifts[0].Missing[1]+"\n") {
		t.Errorf("a pipe gets\n%s", &piped)
	}
	if err := printDrifts(&shown, cli.Terminal{Columns: 80}, drifts); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(shown.String()) {
		if utf8.RuneCountInString(line) > 81 {
			t.Errorf("too long: %s", line)
		}
	}
	if strings.Contains(shown.String(), first) || strings.Join(strings.Fields(shown.String()), "") != strings.Join(strings.Fields(strings.ReplaceAll(piped.String(), first, first[:shortID])), "") {
		t.Errorf("a terminal gets\n%s", &shown)
	}
}

// TestSkippedIsNotRepaired: what was not compared with the host is not said to lack nothing, unless there is nothing to compare.
func TestSkippedIsNotRepaired(t *testing.T) {
	gone := hook.Drift{Allocation: "web-2", Skipped: "its namespace is gone"}
	if err := openDrifts([]hook.Drift{gone}); err != nil {
		t.Error(err)
	}
	err := openDrifts([]hook.Drift{gone, {Allocation: "web-1", Skipped: hook.SkippedBusy}})
	if want := "allocation web-1 is not compared with the host: another call is changing it"; err == nil || err.Error() != want || cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("%v, want %q and exit code 1", err, want)
	}
}
