// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"strings"
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

// TestAttachBesideUnlistedTable: in process a network is attached beside such a rule. Plugins cannot, which a further attempt does not
// change.
func TestAttachBesideUnlistedTable(t *testing.T) {
	h := newHost(t)
	sandbox.Run(t, "sh", "-ec", `iptables -t nat -S >/dev/null; nft add table ip nat; nft add chain ip nat EXTRA; nft add rule ip nat EXTRA fib daddr type local accept`)
	t.Setenv("ALLOCNET_EXECUTOR", "plugins")
	if o := h.allocnet("attach", "u4", "--primary", "web", "--publish", "8303:80"); o.code != 1 || !strings.Contains(o.stderr, "is incompatible") || strings.Contains(o.stderr, "attempts") {
		t.Errorf("exit code %d, want one attempt:\n%s", o.code, o.stderr)
	}
	t.Setenv("ALLOCNET_EXECUTOR", "auto")
	h.attach("u4", "--primary", "web", "--publish", "8303:80")
	h.must("check", "u4")
	h.must("detach", "u4")
	sandbox.Run(t, "sh", "-ec", `nft flush chain ip nat EXTRA; nft delete chain ip nat EXTRA`)
}

// TestSavedRuleset: the operator saves the ruleset of nft and loads it again, as Debian does at boot. The rule is another one for
// iptables then: what a teardown cannot remove, it says, and keeps on record.
func TestSavedRuleset(t *testing.T) {
	h := newHost(t)
	address := h.attach("u2", "--primary", "web", "--publish", "8301:80").Attachments[0].Addresses[0].Addr().String()
	rule := func() string {
		return sandbox.Run(t, "sh", "-c", "nft -a list chain ip filter CNI-FORWARD | grep 'ip daddr "+address+"' || true")
	}
	remove := func() {
		_, handle, _ := strings.Cut(rule(), "handle ")
		sandbox.Run(t, "sh", "-c", "nft delete rule ip filter CNI-FORWARD handle "+handle)
	}
	remove()
	sandbox.Run(t, "nft", "add rule ip filter CNI-FORWARD ip daddr "+address+" ct state established,related counter accept")
	if o := h.allocnet("detach", "u2"); (o.code == 0) != (rule() == "") {
		t.Errorf("%+v, and left is: %s", o, rule())
	}
	if rule() != "" {
		remove()
	}
	h.must("detach", "u2")
}

// TestRuleOfOthers: an operator leads packets through the chain of an attachment. The rule stays, and so the chain.
func TestRuleOfOthers(t *testing.T) {
	h := newHost(t)
	h.attach("u3", "--primary", "web", "--publish", "8302:80")
	sandbox.Run(t, "sh", "-ec", `chain=$(iptables-save -t nat | grep -o 'CNI-[0-9a-f]\{20,\}' | head -n 1)
		iptables -t nat -A POSTROUTING -s 172.30.0.0/16 -m comment --comment "vpn clients" -j $chain`)
	h.refuse(1, []string{"vpn clients"}, "detach", "u3")
	sandbox.Run(t, "sh", "-ec", `iptables-save -t nat | grep -q 'vpn clients'
		chain=$(iptables-save -t nat | grep -o 'CNI-[0-9a-f]\{20,\}' | head -n 1)
		iptables -t nat -D POSTROUTING -s 172.30.0.0/16 -m comment --comment "vpn clients" -j $chain`)
	h.must("detach", "u3")
}
