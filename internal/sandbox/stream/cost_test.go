// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package stream

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootCost: each load has a cost, by flows that connection tracking knows as established ones, and a connection that has ended is an error.
func TestRootCost(t *testing.T) {
	roottest.Require(t)
	sandbox.Run(t, "ip", "netns", "add", "loop")
	defer sandbox.Run(t, "ip", "netns", "del", "loop")
	sandbox.Run(t, "ip", "-n", "loop", "link", "set", "lo", "up")
	sandbox.Run(t, "ip", "netns", "exec", "loop", "nft", "add table inet t; add chain inet t in { type filter hook input priority 0; }; add rule inet t in ct state new counter")
	path := netns.DefaultDir + "/loop"
	f := NewFlows(t, path, path, netip.MustParseAddr("127.0.0.1"))
	defer f.Close()
	before := sandbox.Run(t, "ip", "netns", "exec", "loop", "nft", "list", "chain", "inet", "t", "in")
	for _, load := range []Load{Bulk, Packets, Exchange} {
		if cost, err := f.Cost(load, 10*time.Millisecond); err != nil || cost <= 0 {
			t.Errorf("%s: %v, %v", load, cost, err)
		}
	}
	if after := sandbox.Run(t, "ip", "netns", "exec", "loop", "nft", "list", "chain", "inet", "t", "in"); after != before {
		t.Errorf("packets are of new flows: before %s, after %s", before, after)
	}
	ended := NewFlows(t, path, path, netip.MustParseAddr("127.0.0.2"))
	ended.Close()
	if _, err := ended.Cost(Bulk, time.Millisecond); err == nil {
		t.Error("a connection that has ended has a cost")
	}
}

// TestEnded: what waits for a peer that has ended, or that was never there because its thread has no right to a processor, ends, too.
func TestEnded(t *testing.T) {
	pair := func() *Flows {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		f := &Flows{datagrams: [2]int{-1, -1}}
		for i, open := range []func() (net.Conn, error){func() (net.Conn, error) { return net.Dial("tcp", listener.Addr().String()) }, listener.Accept} {
			conn, err := open()
			if err != nil {
				t.Fatal(err)
			}
			file, err := conn.(*net.TCPConn).File()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = errors.Join(conn.Close(), file.Close()) })
			f.connection[i] = int(file.Fd()) // which waits from now on
		}
		return f
	}
	pinnable := pinned(func(int) error { return nil })
	if _, err := pair().Cost(Exchange, time.Millisecond); (err == nil) != (pinnable == nil) {
		t.Errorf("exchanges: %v, and threads are pinned: %v", err, pinnable)
	}
	for load, send := range map[Load]func(*Flows) (int, error){Bulk: (*Flows).bulk, Exchange: func(f *Flows) (int, error) {
		_, err := f.Cost(Exchange, time.Millisecond)
		return 0, err
	}} {
		f, ended := pair(), pair()
		f.connection[1] = ended.connection[1]
		if err := unix.Shutdown(ended.connection[0], unix.SHUT_WR); err != nil {
			t.Fatal(err)
		}
		if _, err := send(f); err == nil {
			t.Errorf("%s: no error", load)
		}
	}
}
