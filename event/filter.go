// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package event

import (
	"slices"
	"strings"

	"github.com/allocnet/allocnet/state"
)

// Filter selects events. Empty fields select all.
type Filter struct {
	// Allocation is an ID, or the first characters of an ID of Nomad. All of Nomad's IDs
	// have one length; of other IDs, one may begin with another.
	Allocation string
	// Network is the name of a network.
	Network string
	// After is the index of an event: only newer ones are selected.
	After uint64
}

func (f Filter) selects(e Event) bool {
	if f.Network != "" && !slices.Contains(e.Networks, f.Network) {
		return false
	}
	return f.Allocation == "" || e.Allocation == f.Allocation ||
		state.IsNomadID(e.Allocation) && strings.HasPrefix(e.Allocation, f.Allocation)
}
