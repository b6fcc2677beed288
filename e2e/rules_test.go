// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var masquerade = regexp.MustCompile(`CNI-[0-9a-f]{24}`)

// chainOf returns the masquerade chain that a line of iptables-save is about.
func chainOf(line string) string { return masquerade.FindString(line) }

// restore replaces the nat table.
func restore(t *testing.T, rules string) {
	t.Helper()
	cmd := exec.Command("iptables-restore")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("iptables-restore: %v\n%s", err, out)
	}
}
