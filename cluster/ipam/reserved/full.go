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
	"github.com/allocnet/allocnet/internal/errdefs"
)

// FullError is a family of a pool without a reserved address for a new key. The allocation gets
// none from a block instead: what relies on an address that stays would fail later, for no
// visible reason.
type FullError struct {
	Pool string
	// Reserved are the pool's reserved prefixes of the family, and Total is how many addresses
	// they have for attachments.
	Reserved []netip.Prefix
	Total    int
	// Job is what the address is for.
	Job ipam.Job
	// Held and Kept are how many addresses are in use, and are kept by operators, by job. Jobs of
	// other namespaces than that of Job are under "".
	Held, Kept map[string]int
	// Cooling were given back less than Cooldown ago, Unreadable cannot be read in the store,
	// and Leased have leases of others on this host.
	Cooling, Unreadable, Leased int
	Cooldown                    time.Duration
}

func (e *FullError) Error() string {
	var uses []string
	for _, job := range slices.Sorted(maps.Keys(e.Held)) {
		uses = append(uses, fmt.Sprintf("%d held by %s", e.Held[job], jobName(job)))
	}
	for _, job := range slices.Sorted(maps.Keys(e.Kept)) {
		uses = append(uses, fmt.Sprintf("%d reserved for %s", e.Kept[job], jobName(job)))
	}
	for _, of := range []struct {
		count int
		text  string
	}{
		{e.Cooling, fmt.Sprintf("%d freed less than the cooldown of %s ago", e.Cooling, e.Cooldown)},
		{e.Unreadable, fmt.Sprintf("%d with an entry that cannot be read", e.Unreadable)},
		{e.Leased, fmt.Sprintf("%d leased on this host by others", e.Leased)},
	} {
		if of.count > 0 {
			uses = append(uses, of.text)
		}
	}
	return fmt.Sprintf("%v: reserved %v of pool %s has no address for key %q of job %q: of %d, %s; append a prefix to reserved, stop allocations, or give up what is reserved in vain: allocnet ipam unreserve %s ADDRESS",
		ipam.ErrExhausted, e.Reserved, e.Pool, e.Job.Key, e.Job.Job, e.Total, strings.Join(uses, ", "), e.Pool)
}

func jobName(job string) string {
	if job == "" {
		return "jobs of other namespaces"
	}
	return fmt.Sprintf("job %q", job)
}

// Kind is that of package errdefs.
func (*FullError) Kind() errdefs.Kind { return errdefs.Unavailable }

// Is makes it an ipam.ErrExhausted.
func (*FullError) Is(target error) bool { return target == ipam.ErrExhausted }

// full returns why there is no address for a job.
func (s *session) full(job ipam.Job, family ipam.Family) *FullError {
	config := s.a.o.Config
	e := &FullError{Pool: config.Pool, Job: job, Held: map[string]int{}, Kept: map[string]int{}, Cooldown: config.Cooldown}
	for _, p := range config.Reserved {
		if ipam.FamilyOf(p.Addr()) == family {
			e.Reserved = append(e.Reserved, p)
		}
	}
	for _, address := range sequence(config, job, family) {
		e.Total++
		use := s.view.at(address)
		e.count(use, use.index != 0 && s.age(use.content.Freed) < config.Cooldown)
	}
	return e
}

// count adds the use of an address.
func (e *FullError) count(use *entry, cools bool) {
	name := use.content.Job.Job
	if use.content.Job.Namespace != e.Job.Namespace {
		name = ""
	}
	switch {
	case use.err != nil:
		e.Unreadable++
	case use.isHeld():
		e.Held[name]++
	case use.content.Reserved:
		e.Kept[name]++
	case cools:
		e.Cooling++
	default:
		e.Leased++
	}
}
