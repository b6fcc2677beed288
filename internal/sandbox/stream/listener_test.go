// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package stream

import (
	"net"
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.MainIfRoot(m.Run))
}

// TestRootListenWithoutLoopback: a test that first listens where lo is down, as `ip netns add` leaves it, has later ones listen with
// both families.
func TestRootListenWithoutLoopback(t *testing.T) {
	roottest.Require(t)
	sandbox.Run(t, "ip", "netns", "add", "down")
	defer sandbox.Run(t, "ip", "netns", "del", "down")
	sandbox.Run(t, "sh", "-ec", "ip -n down link add other type bridge; ip -n down address add 192.0.2.1/24 dev other")
	Listen(t, netns.DefaultDir+"/down", ":80")
	sandbox.Run(t, "ip", "-n", "down", "link", "set", "lo", "up")
	within(t, netns.DefaultDir+"/down", func() error {
		for _, address := range []string{"127.0.0.1:80", "[::1]:80"} {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				return err
			}
			_ = conn.Close()
		}
		return nil
	})
}
