// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"net"
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
