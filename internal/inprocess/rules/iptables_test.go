// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
)

// committed commits changes of attachments one after another on a host of its own, and returns the
// rules of a chain of the table filter.
func committed(t *testing.T, chain string, commits ...[]*IPTables) (lines []string) {
	t.Helper()
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	err = within.Namespace(netns, func(ns.NetNS) error { // on one thread: what starts goroutines would change the host
		socket, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer socket.Close()
		for _, all := range commits {
			c, errs := &Set{}, make([]error, 1)
			for _, r := range all {
				c.Changes = append(c.Changes, Change{IPTables: r})
			}
			(&iptablesHost{iptablesProgram: iptablesProgram{ctx: t.Context(), family: netfilter.IPv4}, socket: socket}).commit([]*Set{c}, errs)
			if errs[0] != nil {
				return errs[0]
			}
		}
		lines = (&iptablesProgram{ctx: t.Context(), family: netfilter.IPv4}).rulesIn("filter", chain)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestRootRulesAreMadeOnce: those of one address that a chain of plugins adds twice, and those of a
// table that was committed before the transaction failed in the next one.
func TestRootRulesAreMadeOnce(t *testing.T) {
	roottest.Require(t)
	want := []string{
		"-N CNI-FORWARD",
		`-A CNI-FORWARD -m comment --comment overrides -j CNI-ADMIN`,
		"-A CNI-FORWARD -d 10.0.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
		"-A CNI-FORWARD -s 10.0.0.5/32 -j ACCEPT",
	}
	shared := &IPTables{Family: netfilter.IPv4, Table: "filter", Shared: testAddress().Shared}
	for name, commits := range map[string][][]*IPTables{
		"twice in a chain":       {{testAddress(), testAddress()}},
		"before another table's": {{shared}, {testAddress(), testChain(netfilter.IPv4)}},
	} {
		if diff := gocmp.Diff(want, committed(t, "CNI-FORWARD", commits...)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}
