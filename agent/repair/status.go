// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/allocnet/allocnet/hook"
)

// Status is what rounds have found.
type Status struct {
	Mode hook.RepairMode
	// Drifts are the attachments that lacked something after the last round that looked at
	// them, sorted by allocation and interface.
	Drifts []Damage
	// Repeated has the number of repairs of each allocation that was repaired so often, or
	// whose repair failed so, that the next one waits: another program removes what is repaired.
	Repeated map[string]int
	// RemovedBy has the processes that were last known to have removed rules of the chains that the repairs of each
	// of those allocations restored.
	RemovedBy map[string][]hook.Remover
}

// Damage is what an attachment lacks.
type Damage struct {
	hook.Drift

	// Since is when the first of the rounds that found so ended. It is not that of the events, which
	// may tell of the damage of others.
	Since time.Time
}

// Status returns what the rounds so far have found. It may be called at any time.
func (r *Repairer) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// publish makes what is known now what Status returns.
func (r *Repairer) publish() {
	drifts := slices.SortedFunc(maps.Values(r.known), func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.Allocation, b.Allocation), cmp.Compare(a.Interface, b.Interface))
	})
	repeated, removedBy := map[string]int{}, map[string][]hook.Remover{}
	for id, s := range r.series {
		if s.pause() > 0 {
			repeated[id], removedBy[id] = s.count, s.removers
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Drifts, r.status.Repeated, r.status.RemovedBy = drifts, repeated, removedBy
}
