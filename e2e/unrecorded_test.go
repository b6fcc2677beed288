// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRefusedAttachOfUnrecorded: a refused attach changes nothing, even if the record of
// a live allocation is lost.
func TestRefusedAttachOfUnrecorded(t *testing.T) {
	for name, again := range map[string][]string{
		"namespace of that name": {"attach", "r1", "--primary", "web"},
		"interface of that name": {"attach", "r1", "--primary", "web", "--netns", "/run/netns/r1"},
		"another interface":      {"attach", "r1", "--networks", `{"name": "web", "interface": "net5"}`, "--netns", "/run/netns/r1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.attach("r1", "--primary", "web")
			h.loseRecords("r1")
			h.refuse(2, []string{"exists"}, again...)
			if got := sandbox.Run(t, "sh", "-c", "ip -n r1 -brief link show eth0 2>&1 || true"); !strings.HasPrefix(got, "eth0") {
				t.Errorf("it was refused, and its interface is gone: %s", got)
			}
			h.must("detach", "r1")
			sandbox.Run(t, "sh", "-c", "ip netns delete r1 2>/dev/null || true") // detach cannot know that allocnet made it
		})
	}
}
