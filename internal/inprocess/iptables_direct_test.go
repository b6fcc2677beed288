// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootSharedIsSeen: rules that all attachments share are recognized as iptables-nft makes them,
// and those for some packets only are not taken for them.
func TestRootSharedIsSeen(t *testing.T) {
	roottest.Require(t)
	for _, r := range append(testFirewall(t, "open"), testPortmap(t)) {
		for _, narrow := range []string{"", "-p tcp ", "-s 192.0.2.1 ", "-m mark --mark 1 "} {
			seen, err := sharedIsSeen(t, r, narrow)
			if err != nil {
				t.Fatal(err)
			}
			if seen != (narrow == "") {
				t.Errorf("%s, with %q: seen is %t", r.table, narrow, seen)
			}
		}
	}
}

// sharedIsSeen makes what attachments share in a namespace of its own, the rules with one more
// match, and looks for it.
func sharedIsSeen(t *testing.T, r *iptablesRules, narrow string) (seen bool, err error) {
	t.Helper()
	netns, err := ns.TempNetNS()
	if err != nil {
		return false, err
	}
	defer netns.Close()
	err = within.Namespace(netns, func(ns.NetNS) error { // on one thread: what starts goroutines would change the host
		lines, transaction := &iptablesTransaction{}, &iptablesTransaction{}
		for _, group := range r.shared {
			lines.addGroup(group)
		}
		transaction.Table(r.table, &lines.Transaction)
		cmd := exec.CommandContext(t.Context(), "iptables-nft-restore", "--noflush")
		cmd.Stdin = strings.NewReader(strings.ReplaceAll(transaction.String(), " -j CNI-", " "+narrow+"-j CNI-"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		socket, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer socket.Close()
		seen = (&iptablesHost{ctx: t.Context(), nft: true, socket: socket, family: netfilter.IPv4}).hasShared(r)
		return nil
	})
	return seen, err
}
