// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootSharedIsMadeByOne: what all attachments share is not made while another process of the same
// network namespace may make it.
func TestRootSharedIsMadeByOne(t *testing.T) {
	roottest.Require(t)
	t.Setenv("PATH", t.TempDir()) // no programs, so that nothing takes time but the lock
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Close()
	err = within(netns, func(ns.NetNS) error {
		other, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer files.CloseLocked(other)
		if err := files.Lock(t.Context(), other, unix.LOCK_EX); err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer stop()
		(&iptablesHost{ctx: ctx, family: netfilter.IPv4}).makeShared(changesOf(false, testFirewall(t, "")...), "filter")
		if ctx.Err() == nil {
			t.Error("it did not wait for the lock")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
