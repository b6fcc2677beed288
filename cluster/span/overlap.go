// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// errOverlap is a pool whose routes would be taken for those of another one, and removed.
var errOverlap = errdefs.New(errdefs.Conflict, "subnets of two pools overlap")

// claim is a pool whose routes are those in its subnets.
type claim struct {
	pool    string
	subnets []netip.Prefix
}

// overlapped returns the pool of a list that has a part of the subnets of another one; nil if there is none.
func overlapped(c claim, others []claim) *claim {
	for i := range others {
		if others[i].pool == c.pool {
			continue
		}
		for _, s := range c.subnets {
			if slices.ContainsFunc(others[i].subnets, s.Overlaps) {
				return &others[i]
			}
		}
	}
	return nil
}

// choose returns the pools that get routes, with the claims of all that have some, and why others get none.
// One that has routes is preferred to one that is new, so that a mistake does not take away what works.
func choose(kept []Kept, made map[string][]netip.Prefix, claims []claim) (chosen []Kept, all []claim, refused map[string]error) {
	order := slices.DeleteFunc(slices.Clone(kept), func(k Kept) bool { return k.Config.Mode == ipam.ModeFlat })
	isNew := func(k Kept) int {
		if _, ok := made[k.Config.Pool]; ok {
			return 0
		}
		return 1
	}
	slices.SortFunc(order, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(isNew(a), isNew(b)), cmp.Compare(a.Config.Pool, b.Config.Pool))
	})
	refused = map[string]error{}
	for _, k := range order {
		c := claim{k.Config.Pool, k.Config.Subnets()}
		if other := overlapped(c, claims); other != nil {
			refused[c.pool] = fmt.Errorf("%w: this one has %s, and the pool %s, which has its routes, %s: change the ranges, or remove the network of one", errOverlap, c.subnets, other.pool, other.subnets)
			continue
		}
		chosen, claims = append(chosen, k), append(claims, c)
	}
	return chosen, claims, refused
}
