// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

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

// TestMistakeInANetwork: a mistake in the configuration of a network has it executed by plugins.
// That these are not installed is not what is wrong.
func TestMistakeInANetwork(t *testing.T) {
	h := newHost(t)
	h.withoutPlugins()
	sandbox.WriteFile(t, h.conf+"/86-mistaken.conflist", `{"cniVersion": "1.0.0", "name": "mistaken", "plugins": [{"type": "bridge", "isGatewy": true}]}`)
	const want = `itself: plugin "bridge": json: unknown field "isGatewy"`
	h.refuse(2, []string{`plugin "bridge" is not installed`, want}, "attach", "m1", "--primary", "mistaken")
	for _, command := range []string{"networks", "doctor"} {
		if o := h.allocnet(command); o.code != 1 || !strings.Contains(o.stdout, want) {
			t.Errorf("%s: exit code %d, and not %q in\n%s%s", command, o.code, want, o.stdout, o.stderr)
		}
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
