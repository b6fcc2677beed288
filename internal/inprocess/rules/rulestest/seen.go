// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rulestest

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
)

// RequireSeen requires that rules that all attachments share are recognized as iptables-nft makes them, and that those for some
// packets only are not taken for them. The test needs root.
func RequireSeen(t *testing.T, r *rules.IPTables) {
	t.Helper()
	for _, narrow := range []string{"", "-p tcp ", "-s 192.0.2.1 ", "-m mark --mark 1 "} {
		if seen := sharedIsSeen(t, r, narrow); seen != (narrow == "") {
			t.Errorf("%s, with %q: seen is %t", r.Table, narrow, seen)
		}
	}
}

// sharedIsSeen makes what is shared, with rules that lead to chains of plugins narrowed.
func sharedIsSeen(t *testing.T, r *rules.IPTables, narrow string) (seen bool) {
	t.Helper()
	netnstest.Run(t, func() error {
		whole := &netfilter.Transaction{}
		whole.Table(r.Table, shared(r))
		cmd := exec.CommandContext(t.Context(), "iptables-nft-restore", "--noflush")
		cmd.Stdin = strings.NewReader(strings.ReplaceAll(whole.String(), " -j CNI-", " "+narrow+"-j CNI-"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		socket, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer socket.Close()
		table := &netfilter.Table{Family: r.Family, Name: r.Table}
		seen = !slices.ContainsFunc(r.Shared, func(group rules.Group) bool {
			return slices.ContainsFunc(group.Rules, func(rule rules.Rule) bool {
				return rule.Seen == nil || !socket.HasRule(table, rule.Chain, rule.Seen)
			})
		})
		return nil
	})
	return seen
}
