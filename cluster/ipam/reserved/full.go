// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// full returns why a family has no reserved address for a new key. The allocation gets none from a block instead: what
// relies on an address that stays would fail later, for no visible reason.
func (t *attempt) full(family ipam.Family) error {
	config, job := t.s.a.o.Config, t.request.Job
	prefixes := slices.DeleteFunc(slices.Clone(config.Reserved), func(p netip.Prefix) bool { return ipam.FamilyOf(p.Addr()) != family })
	counts, all := map[obstacle]int{}, sequence(config, job, family)
	for _, address := range all {
		counts[t.obstacle(t.s.view.at(address))]++
	}
	var texts []string
	for _, o := range slices.SortedFunc(maps.Keys(counts), obstacle.compare) {
		texts = append(texts, fmt.Sprintf("%d %s", counts[o], o.text))
	}
	return fmt.Errorf("%w: reserved %v of pool %s has no address for key %q of job %q: of %d, %s; append a prefix to reserved, stop allocations, or give up what is reserved in vain: allocnet ipam unreserve %s ADDRESS",
		ipam.ErrExhausted, prefixes, config.Pool, job.Key, job.Job, len(all), strings.Join(texts, ", "), config.Pool)
}

// obstacle keeps an address from a new key.
type obstacle struct {
	rank      int
	job, text string
}

func (o obstacle) compare(other obstacle) int {
	return cmp.Or(cmp.Compare(o.rank, other.rank), cmp.Compare(o.job, other.job))
}

// obstacle returns what keeps an entry from the key. Jobs of other namespaces are not told apart.
func (t *attempt) obstacle(e *entry) obstacle {
	cooldown, job := t.s.a.o.Config.Cooldown, e.content.Job.Job
	name := fmt.Sprintf("job %q", job)
	if job == "" || e.content.Job.Namespace != t.request.Job.Namespace {
		job, name = "", "jobs of other namespaces"
	}
	switch {
	case e.err != nil:
		return obstacle{3, "", "with an entry that cannot be read"}
	case e.isHeld():
		return obstacle{0, job, "held by " + name}
	case e.content.Reserved:
		return obstacle{1, job, "reserved for " + name}
	case e.index != 0 && t.s.now.age(e.content.Freed) < cooldown:
		return obstacle{2, "", fmt.Sprintf("freed less than the cooldown of %s ago", cooldown)}
	}
	return obstacle{4, "", "leased on this host by others"}
}
