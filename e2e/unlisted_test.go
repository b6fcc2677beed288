// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestUnlistedTable: another program has put a rule into the table nat that iptables cannot list. The rules of
// allocations are looked for one by one, and the rest is repaired.
func TestUnlistedTable(t *testing.T) {
	h := newHost(t)
	h.attach("u1", "--primary", "web", "--publish", "8300:80")
	sandbox.Run(t, "sh", "-ec", `nft add chain ip nat EXTRA; nft add rule ip nat EXTRA fib daddr type local accept; iptables-save | grep -q incompatible`)
	h.must("check", "u1")
	h.must("repair", "--dry-run", "u1")
	sandbox.Run(t, "ip", "-n", "u1", "link", "set", "eth0", "down")
	h.must("repair", "u1")
	h.must("check", "u1")
	sandbox.Run(t, "iptables", "-t", "nat", "-F", "CNI-HOSTPORT-DNAT")
	h.refuse(1, []string{"cannot list table nat", "nft list ruleset", "not found"}, "check", "u1")
	sandbox.Run(t, "sh", "-ec", `nft flush chain ip nat EXTRA; nft delete chain ip nat EXTRA`)
	h.must("repair", "u1")
	h.must("detach", "u1")
}
