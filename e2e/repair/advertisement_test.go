// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"testing"

	"github.com/allocnet/allocnet/hook"
)

// TestAddressWithLifetime: an address that a client of DHCPv6 has set in the namespace, and its
// connections, survive the repair of what the interface does with router advertisements.
func TestAddressWithLifetime(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	a := h.attach("one", 8080)
	t.Cleanup(func() {
		h.detach("one")
		shell(t, "ip address del fd00:99::1/64 dev web0")
	})
	shell(t, "ip address add fd00:99::1/64 dev web0 nodad; ip -n one address add fd00:99::2/64 dev eth0 valid_lft 3600 preferred_lft 3600 nodad")
	c := h.connect("to the address", own, a.Netns, "[::]:81", "[fd00:99::2]:81")
	shell(t, "ip netns exec one sysctl -qw net.ipv6.conf.eth0.accept_ra=1")
	if found := h.repair(hook.RepairRules); len(found) != 1 || !found[0].Repaired {
		t.Errorf("%+v", found)
	}
	h.requireAlive(c)
}
