// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"net"
	"strings"
	"testing"
	"time"

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

// TestHostsOwnLoopbackLinks: addresses of 127.0.0.0/8 that the operator has on a link go on working when a port is published,
// and when it is not any more.
func TestHostsOwnLoopbackLinks(t *testing.T) {
	bothExecutors(t, func(t *testing.T) {
		h := newHost(t)
		sandbox.Run(t, "sh", "-ec", `ip netns add card; ip link add lc0 type veth peer name eth0 netns card
			ip addr add 127.1.0.1/16 dev lc0; ip link set lc0 up; sysctl -qw net.ipv4.conf.lc0.route_localnet=1
			ip -n card addr add 127.1.0.2/16 dev eth0; ip -n card link set eth0 up; ip netns exec card sysctl -qw net.ipv4.conf.eth0.route_localnet=1`)
		defer sandbox.Run(t, "ip", "netns", "del", "card")
		serve(t, "/run/netns/card", "127.1.0.2:99", "card here")
		require := func(when string) {
			t.Helper()
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, 1)}, Timeout: 2 * time.Second}
			conn, err := dialer.Dial("tcp", "127.1.0.2:99")
			if err != nil {
				t.Errorf("%s: %v", when, err)
				return
			}
			_ = conn.Close()
		}
		require("before")
		h.attach("c1", "--primary", "web", "--publish", "8321:80")
		require("while a port is published")
		h.must("detach", "c1")
		require("after the detach")
	})
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
