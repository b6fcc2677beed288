// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/inprocess/within"
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
	err = within.Namespace(netns, func(ns.NetNS) error {
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
		(&iptablesHost{iptablesProgram: iptablesProgram{ctx: ctx, family: netfilter.IPv4}}).makeShared(changesOf(false, testAddress()), "filter")
		if ctx.Err() == nil {
			t.Error("it did not wait for the lock")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootReloadedRulesAreNotGone: iptables does not see the rules of a ruleset that was saved with nft and loaded again. DEL does
// not succeed while they are there, with a chain of the attachment as without.
func TestRootReloadedRulesAreNotGone(t *testing.T) {
	roottest.Require(t)
	for name, attachment := range map[string][]*IPTables{"chain": {testChain(netfilter.IPv4)}, "address": {testAddress()}} {
		netns, err := ns.TempNetNS()
		if err != nil {
			t.Fatal(err)
		}
		err = within.Namespace(netns, func(ns.NetNS) error { // on one thread: what starts goroutines would change the host
			socket, err := netfilter.Dial(t.Context())
			if err != nil {
				return err
			}
			defer socket.Close()
			commit := func(remove bool) error {
				c, errs := &Set{Kind: KindNFT}, make([]error, 1)
				for _, r := range attachment {
					c.Changes = append(c.Changes, Change{IPTables: r, Remove: remove})
				}
				(&iptablesHost{iptablesProgram: iptablesProgram{ctx: t.Context(), family: netfilter.IPv4, kind: KindNFT}, socket: socket}).commit([]*Set{c}, errs)
				return errs[0]
			}
			reload := exec.CommandContext(t.Context(), "sh", "-c", "rules=$(nft list ruleset) && nft flush ruleset && echo \"$rules\" | nft -f -")
			if err := errors.Join(commit(false), reload.Run()); err != nil {
				return err
			}
			if err := commit(true); err == nil || !strings.Contains(err.Error(), "saved ruleset") {
				t.Errorf("%s: removal ends with the error %v, want what is there still", name, err)
			}
			return nil
		})
		_ = netns.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
}
