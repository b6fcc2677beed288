// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import "time"

// Leaks is what the last garbage collection left of dead allocations on the host.
type Leaks struct {
	// Examined is when the host was examined. Zero: not yet.
	Examined time.Time `json:"examined,omitzero"`
	Leaks    []Leak    `json:"leaks"`
	// Problems are places that could not be examined.
	Problems []string `json:"problems"`
}

// Leak is an object on the host whose allocation is dead.
type Leak struct {
	// Kind is what the object is, such as lease.
	Kind string `json:"kind"`
	// Where is its name in the tools that show it, or its path.
	Where string `json:"where"`
	// Allocation and Network are what it was made for. Empty: unknown.
	Allocation string `json:"allocation,omitempty"`
	Network    string `json:"network,omitempty"`
	// Reason is why it is a leak.
	Reason string `json:"reason"`
	// Error is why it was not removed. Empty: the agent only reports leaks.
	Error string `json:"error,omitempty"`
}
