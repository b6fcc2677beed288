// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package flows

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// tracked are the flows that the kernel tracks.
func tracked(t *testing.T) (all []netfilter.Flow) {
	t.Helper()
	if err := netfilter.ForgetEach(t.Context(), func(f netfilter.Flow) bool { all = append(all, f); return false }); err != nil {
		t.Fatal(err)
	}
	return all
}

// send sends a packet to port 9 of this host, so that there is a flow of it.
func send(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("udp", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	all := tracked(t)
	if !slices.ContainsFunc(all, func(f netfilter.Flow) bool { return f.Protocol == udp && f.Original.DestinationPort == 9 }) {
		t.Fatalf("the flow is not among %+v", all)
	}
}

// TestRootForget: the kernel forgets a flow. That it has ended meanwhile is no error; a call that is too late is.
func TestRootForget(t *testing.T) {
	roottest.Require(t)
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Close()
	err = within.Namespace(netns, func(ns.NetNS) error {
		if err := links.SetUp("lo"); err != nil {
			return err
		}
		sandbox.Run(t, "nft", "add table ip t; add chain ip t c { type filter hook output priority 0; }; add rule ip t c ct state new accept")
		send(t)
		all := []Translation{fakeTranslation{{Source: netip.MustParseAddr("127.0.0.1")}}}
		if err := Forget(t.Context(), all); err != nil {
			return err
		}
		if left := tracked(t); len(left) > 0 {
			t.Errorf("left are %+v", left)
		}
		send(t)
		nested := func(netfilter.Flow) bool {
			if err := Forget(t.Context(), all); err != nil {
				t.Error(err)
			}
			return true
		}
		if err := netfilter.ForgetEach(t.Context(), nested); err != nil {
			t.Errorf("a flow that has ended: %v", err)
		}
		late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer stop()
		if err := Forget(late, all); err == nil {
			t.Error("a call that is too late succeeds")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
