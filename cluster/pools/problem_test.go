// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
)

// TestProblems: what keeps a pool from assigning addresses is reported before there is none
// left, and what does not is not.
func TestProblems(t *testing.T) {
	now := time.Now()
	held := pool.BlockUsage{Block: netip.MustParsePrefix("10.91.0.0/26"), State: "held"}
	lost := pool.BlockUsage{Block: netip.MustParsePrefix("10.91.1.0/26"), State: "lost"}
	families := func(used, cooling, free int) []pool.FamilyUsage {
		return []pool.FamilyUsage{{Family: ipam.IPv4, Blocks: 1, Count: pool.Count{Used: used, Cooling: cooling, Free: free}}}
	}
	for name, test := range map[string]struct {
		usage pool.Usage
		lost  []netip.Addr
		errs  []error
		want  []Problem
	}{
		"a pool that is not used yet":       {},
		"all is well":                       {usage: pool.Usage{Verified: now, Blocks: []pool.BlockUsage{held}, Families: families(1, 2, 3)}, errs: []error{nil, nil}},
		"verified half an allowed time ago": {usage: pool.Usage{Verified: now.Add(-10 * time.Hour), Blocks: []pool.BlockUsage{held}}},
		"verified long ago": {
			usage: pool.Usage{Verified: now.Add(-15 * time.Hour), Blocks: []pool.BlockUsage{held}},
			want:  []Problem{{Fenced, "the blocks of this host were not verified for 15h0m0s: in 5h0m0s it assigns no new address"}},
		},
		"verified too long ago": {
			usage: pool.Usage{Verified: now.Add(-21 * time.Hour), Fenced: true, Closed: ipam.ErrFenced, Blocks: []pool.BlockUsage{held}},
			want:  []Problem{{Fenced, "the blocks of this host are not verified"}},
		},
		"a clone": {
			usage: pool.Usage{Verified: now, Blocks: []pool.BlockUsage{held}, Closed: fmt.Errorf("at start: %w", ipam.ErrTwin)},
			want:  []Problem{{Twin, "at start: another host has this host's identity"}},
		},
		"a clone that was refused": {
			usage: pool.Usage{Verified: now, Blocks: []pool.BlockUsage{held}, Copied: true},
			want:  []Problem{{Twin, "a copy of this machine has used the store within the last hour, and was refused: stop it, or remove instance, node.json and pools from the directory ipam of its state directory"}},
		},
		"lost": {
			usage: pool.Usage{Verified: now, Blocks: []pool.BlockUsage{held, lost}}, lost: []netip.Addr{netip.MustParseAddr("10.91.9.1")},
			want: []Problem{{Lost, "another host owns what this host has used: 10.91.1.0/26 10.91.9.1"}},
		},
		"exhausted": {
			usage: pool.Usage{Verified: now, Blocks: []pool.BlockUsage{held}, Families: families(60, 2, 0)},
			errs:  []error{fmt.Errorf("claim: %w", ipam.ErrExhausted)},
			want:  []Problem{{Exhausted, "no IPv4 address is free: 60 are in use, and 2 were freed less than the cooldown ago"}},
		},
		"all blocks are claimed, and the own ones have room": {
			usage: pool.Usage{Verified: now, Blocks: []pool.BlockUsage{held}, Families: families(60, 0, 2)},
			errs:  []error{fmt.Errorf("claim: %w", ipam.ErrExhausted)},
		},
		"errors of steps": {
			errs: []error{
				fmt.Errorf("a: %w", ipam.ErrRefused), fmt.Errorf("b: %w", ipam.ErrRefused), fmt.Errorf("c: %w", ipam.ErrTwin),
				fmt.Errorf("d: %w", ipam.ErrMismatch), context.DeadlineExceeded, errors.New("disk full"),
			},
			want: []Problem{
				{Refused, "a: the store refuses access"}, {Twin, "c: another host has this host's identity"}, {Mismatch, "d: the pool is configured differently on other hosts"},
				{Unavailable, "context deadline exceeded"}, {Failed, "disk full"},
			},
		},
	} {
		if diff := cmp.Diff(test.want, problems(test.usage, test.lost, test.errs, 20*time.Hour, now)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
