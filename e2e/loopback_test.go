// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestLoopback: Nomad's exec and raw_exec leave lo down, as `ip netns add` does. An
// attached namespace has it up, also when its networks are detached.
func TestLoopback(t *testing.T) {
	h := newHost(t)
	requireUp := func(want bool) {
		t.Helper()
		if text := sandbox.Run(t, "ip", "-n", "lo1", "link", "show", "lo"); strings.Contains(text, "LOOPBACK,UP") != want {
			t.Errorf("lo is up: %v, want %v:\n%s", !want, want, text)
		}
	}
	sandbox.Run(t, "ip", "netns", "add", "lo1")
	defer sandbox.Run(t, "ip", "netns", "del", "lo1")
	requireUp(false)
	h.attach("lo1", "--netns", "/run/netns/lo1", "--networks", "storage")
	requireUp(true)
	h.must("check", "lo1")
	sandbox.Run(t, "ip", "-n", "lo1", "link", "set", "lo", "down")
	h.refuse(1, []string{"interface lo is down", "nsenter --net=/run/netns/lo1 ip link set lo up"}, "check", "lo1")
	sandbox.Run(t, "nsenter", "--net=/run/netns/lo1", "ip", "link", "set", "lo", "up")
	h.must("check", "lo1")
	h.must("detach", "lo1")
	requireUp(true)
}
