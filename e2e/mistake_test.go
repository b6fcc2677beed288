// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import "testing"

// TestMistakes: what is wrong on a command line is refused, with what would be right.
func TestMistakes(t *testing.T) {
	h := newHost(t)
	for want, args := range map[string][]string{
		`executor "fast": want "auto" or "plugins"`:                         {"status", "--executor", "fast"},
		`socket "agent.sock": want an absolute path`:                        {"agent", "--socket", "agent.sock"},
		"--quiet and --template: want one of them":                          {"status", "-q", "-t", "{{.}}"},
		"--format svg and one of --json, --quiet and --template: want one ": {"map", "--format", "svg", "--json"},
	} {
		h.refuse(2, []string{want}, args...)
	}
}

// TestRepairOfOneTwice: an allocation that is named twice is not taken for one that another
// call is changing.
func TestRepairOfOneTwice(t *testing.T) {
	h := newHost(t)
	h.attach("web-1", "--networks", "storage")
	if out := h.must("repair", "web-1", "web-1"); out != "Nothing is missing.\n" {
		t.Error(out)
	}
	h.must("detach", "web-1")
}
