// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestAlternativeName: an interface that has the name of an attachment as an alternative one is the task's own.
// The kernel finds it by that name, and so do plugins.
func TestAlternativeName(t *testing.T) {
	for _, executor := range []string{"auto", "plugins"} {
		for _, network := range []string{"web", "vlan"} {
			t.Run(executor+", "+network, func(t *testing.T) {
				t.Setenv("ALLOCNET_EXECUTOR", executor)
				h := newHost(t)
				h.attach("alt", "--primary", network)
				sandbox.Run(t, "sh", "-c", "ip -n alt link del eth0; ip -n alt link add mine type bridge && ip -n alt link property add dev mine altname eth0")
				sandbox.Run(t, "sh", "-c", "touch /run/netns/kept && mount --bind /run/netns/alt /run/netns/kept")
				h.must("detach", "alt")
				if out := sandbox.Run(t, "ip", "-n", "kept", "-o", "link"); !strings.Contains(out, "mine:") {
					t.Errorf("the task's interface is removed:\n%s", out)
				}
				sandbox.Run(t, "ip", "netns", "del", "kept")
			})
		}
	}
}
