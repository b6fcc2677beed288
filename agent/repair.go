// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"maps"
	"net/http"
	"slices"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/repair"
)

func (a *Agent) getRepair(*http.Request) (any, error) {
	s := a.config.Repair()
	wire := &api.Repair{Mode: string(s.Mode), Damaged: []api.Damage{}, Waiting: []api.WaitingRepair{}}
	for _, d := range s.Drifts {
		wire.Damaged = append(wire.Damaged, wireDamage(d))
	}
	for _, id := range slices.Sorted(maps.Keys(s.Repeated)) {
		wire.Waiting = append(wire.Waiting, api.WaitingRepair{Allocation: id, Repairs: s.Repeated[id], RemovedBy: s.RemovedBy[id]})
	}
	return wire, nil
}

func wireDamage(d repair.Damage) api.Damage {
	wire := api.Damage{
		Allocation: d.Allocation, Network: d.Network, Interface: d.Interface,
		Since: d.Since, Missing: append([]string{}, d.Missing...), Unrepairable: append([]string{}, d.Unrepairable...),
		RemovedBy: d.RemovedBy,
	}
	if d.Err != nil {
		wire.Error = d.Err.Error()
	}
	return wire
}
