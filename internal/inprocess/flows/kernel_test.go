// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package flows

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// sent returns the flow of a packet to port 9 of this host.
func sent(t *testing.T, of *socket) Flow {
	t.Helper()
	conn, err := net.Dial("udp", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	all, err := of.list()
	at := slices.IndexFunc(all, func(f Flow) bool { return f.Protocol == udp && f.Original.DestinationPort == 9 })
	if err != nil || at < 0 {
		t.Fatalf("the flow is not among %+v, %v", all, err)
	}
	return all[at]
}

// TestRootForget: the kernel forgets a flow. That it has ended is no error; what is no flow, and a call that is too late, are.
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
		own, err := dial(t.Context())
		if err != nil {
			return err
		}
		defer own.Close()
		sent(t, own)
		all := []Translation{fakeTranslation{{Source: netip.MustParseAddr("127.0.0.1")}}}
		if err := Forget(t.Context(), all); err != nil {
			return err
		}
		if left, err := own.list(); len(left) > 0 || err != nil {
			t.Errorf("left are %+v, %v", left, err)
		}
		f := sent(t, own)
		if err := errors.Join(own.forget(f), own.forget(f)); err != nil {
			t.Errorf("a flow that has ended: %v", err)
		}
		f.message = slices.Concat(f.message[:nfgenmsgLength], []byte{4, 0, 1, unix.NLA_F_NESTED >> 8})
		if err := own.forget(f); err == nil {
			t.Error("what is no flow is forgotten")
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
