// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// bothExecutors runs a test with each executor, whichever the tests run with.
func bothExecutors(t *testing.T, test func(t *testing.T)) {
	for _, executor := range []string{"auto", "plugins"} {
		t.Run(executor, func(t *testing.T) {
			t.Setenv("ALLOCNET_EXECUTOR", executor)
			test(t)
		})
	}
}

// newUplink gives the host a link to a router, 192.0.2.1, and the address 192.0.2.2 there.
func newUplink(t *testing.T) {
	t.Helper()
	sandbox.Run(t, "sh", "-ec", `ip netns add wan; ip link add up0 type veth peer name wan0 netns wan
		ip addr add 192.0.2.2/24 dev up0; ip link set up0 up; ip -n wan addr add 192.0.2.1/24 dev wan0; ip -n wan link set wan0 up`)
	t.Cleanup(func() { sandbox.Run(t, "sh", "-ec", "ip netns del wan; rm -rf /run/lan") })
}

// TestHostsOwnAddress: an IPAM plugin assigns the host's address on the link of the attachment. It is refused and undone, and the
// next attachment gets the next address.
func TestHostsOwnAddress(t *testing.T) {
	bothExecutors(t, func(t *testing.T) {
		h := newHost(t)
		newUplink(t)
		sandbox.WriteFile(t, h.conf+"/16-lan.conflist", `{"cniVersion": "1.0.0", "name": "lan", "plugins": [
			{"type": "macvlan", "master": "up0", "ipam": {"type": "host-local", "subnet": "192.0.2.0/24", "dataDir": "/run/lan"}}]}`)
		h.refuse(1, []string{"192.0.2.2, which is an address of this host, on up0", h.conf + "/16-lan.conflist"}, "attach", "c1", "--primary", "lan")
		h.refuse(3, nil, "check", "c1")
		a := h.attach("c1", "--primary", "lan")
		if got := a.Attachments[0].Addresses[0].String(); got != "192.0.2.3/24" {
			t.Errorf("the next attachment has %s", got)
		}
		h.must("detach", "c1")
	})
}

// TestSubnetOfTheUplink: a network with the subnet of the host's link would give the bridge the router's address. It is refused
// before anything is made, and the doctor says so.
func TestSubnetOfTheUplink(t *testing.T) {
	bothExecutors(t, func(t *testing.T) {
		h := newHost(t)
		newUplink(t)
		sandbox.WriteFile(t, h.conf+"/16-lan.conflist", `{"cniVersion": "1.0.0", "name": "lan", "plugins": [
			{"type": "bridge", "bridge": "lan0", "isGateway": true, "ipam": {"type": "host-local", "subnet": "192.0.2.0/24", "dataDir": "/run/lan"}}]}`)
		words := []string{"the bridge lan0 gets the address 192.0.2.1, and 192.0.2.0/24 is the subnet of up0", h.conf + "/16-lan.conflist"}
		h.refuse(2, words, "attach", "c1", "--primary", "lan")
		serve(t, "/run/netns/wan", "192.0.2.1:99", "the router")
		requireAnswer(t, "http://192.0.2.1:99", "the router")
		if text := h.allocnet("doctor").stdout; !strings.Contains(text, words[0]) {
			t.Errorf("doctor does not say %q:\n%s", words[0], text)
		}
	})
}

// TestPortElsewhere: the doctor warns of a port on an address that the host does not have, until it has it.
func TestPortElsewhere(t *testing.T) {
	h := newHost(t)
	newUplink(t)
	const words = "port 8322/tcp of eth0 is published on 192.0.2.9, which is no address of this host"
	h.attach("c1", "--primary", "web", "--publish", "192.0.2.9:8322:80")
	if text := h.allocnet("doctor").stdout; !strings.Contains(text, words) {
		t.Errorf("doctor does not say %q:\n%s", words, text)
	}
	sandbox.Run(t, "ip", "addr", "add", "192.0.2.9/24", "dev", "up0")
	if text := h.allocnet("doctor").stdout; strings.Contains(text, words) {
		t.Errorf("doctor says it of an address of the host:\n%s", text)
	}
	h.must("detach", "c1")
}
