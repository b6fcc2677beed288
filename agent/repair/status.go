// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hook"
)

// damage is what an attachment lacks.
type damage struct {
	hook.Drift

	// since is when the first of the rounds that found so ended. It is not that of the events, which
	// may tell of the damage of others.
	since time.Time
}

// Status returns what the rounds so far have found, in the order of allocations and interfaces. It may be called at any time.
func (r *Repairer) Status() api.Repair {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// mode is that of the rounds that begin from now on.
func (r *Repairer) mode() hook.RepairMode { return hook.RepairMode(r.Status().Mode) }

// publish makes what is known now what Status returns.
func (r *Repairer) publish() {
	damaged, waiting := []api.Damage{}, []api.WaitingRepair{}
	for _, d := range r.known {
		one := api.Damage{
			Allocation: d.Allocation, Network: d.Network, Interface: d.Interface, Since: d.since,
			Missing: append([]string{}, d.Missing...), Unrepairable: append([]string{}, d.Unrepairable...), RemovedBy: d.RemovedBy,
		}
		if d.Err != nil {
			one.Error = d.Err.Error()
		}
		damaged = append(damaged, one)
	}
	slices.SortFunc(damaged, func(a, b api.Damage) int {
		return cmp.Or(cmp.Compare(a.Allocation, b.Allocation), cmp.Compare(a.Interface, b.Interface))
	})
	for _, id := range slices.Sorted(maps.Keys(r.series)) {
		if s := r.series[id]; s.pause() > 0 {
			waiting = append(waiting, api.WaitingRepair{Allocation: id, Repairs: s.count, RemovedBy: s.removers})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Damaged, r.status.Waiting = damaged, waiting
}
