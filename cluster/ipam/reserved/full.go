// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// uses are what keeps the reserved addresses of a family from a new key.
type uses struct {
	// held and kept are how many addresses are in use, and are kept by operators, by job. Jobs of
	// other namespaces than that of the key are under "".
	held, kept map[string]int
	// cooling were given back less than the cooldown ago, unreadable cannot be read in the store,
	// and leased have leases of others on this host.
	cooling, unreadable, leased int
}

func jobName(job string) string {
	if job == "" {
		return "jobs of other namespaces"
	}
	return fmt.Sprintf("job %q", job)
}

// full returns why a family has no reserved address for a new key. The allocation gets none from a block instead: what
// relies on an address that stays would fail later, for no visible reason.
func (s *session) full(job ipam.Job, family ipam.Family) error {
	config := s.a.o.Config
	prefixes := slices.DeleteFunc(slices.Clone(config.Reserved), func(p netip.Prefix) bool { return ipam.FamilyOf(p.Addr()) != family })
	u, all := uses{held: map[string]int{}, kept: map[string]int{}}, sequence(config, job, family)
	for _, address := range all {
		use := s.view.at(address)
		u.count(use, job.Namespace, use.index != 0 && s.age(use.content.Freed) < config.Cooldown)
	}
	return fmt.Errorf("%w: reserved %v of pool %s has no address for key %q of job %q: of %d, %s; append a prefix to reserved, stop allocations, or give up what is reserved in vain: allocnet ipam unreserve %s ADDRESS",
		ipam.ErrExhausted, prefixes, config.Pool, job.Key, job.Job, len(all), u.text(config.Cooldown), config.Pool)
}

func (u *uses) text(cooldown time.Duration) string {
	var texts []string
	for _, job := range slices.Sorted(maps.Keys(u.held)) {
		texts = append(texts, fmt.Sprintf("%d held by %s", u.held[job], jobName(job)))
	}
	for _, job := range slices.Sorted(maps.Keys(u.kept)) {
		texts = append(texts, fmt.Sprintf("%d reserved for %s", u.kept[job], jobName(job)))
	}
	for _, of := range []struct {
		count int
		text  string
	}{
		{u.cooling, fmt.Sprintf("%d freed less than the cooldown of %s ago", u.cooling, cooldown)},
		{u.unreadable, fmt.Sprintf("%d with an entry that cannot be read", u.unreadable)},
		{u.leased, fmt.Sprintf("%d leased on this host by others", u.leased)},
	} {
		if of.count > 0 {
			texts = append(texts, of.text)
		}
	}
	return strings.Join(texts, ", ")
}

func (u *uses) count(use *entry, namespace string, cools bool) {
	name := use.content.Job.Job
	if use.content.Job.Namespace != namespace {
		name = ""
	}
	switch {
	case use.err != nil:
		u.unreadable++
	case use.isHeld():
		u.held[name]++
	case use.content.Reserved:
		u.kept[name]++
	case cools:
		u.cooling++
	default:
		u.leased++
	}
}
