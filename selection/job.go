// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import "github.com/allocnet/allocnet/allocation"

// Job is what an orchestrator says of an allocation. The zero value is of one that is not the orchestrator's.
type Job struct {
	// Identity is whose it is.
	Identity allocation.Identity `json:"identity"`
	// Networks are those that its job selects, and Narrowing is what that leaves of their traffic.
	Networks  []Element `json:"networks"`
	Narrowing Narrowing `json:"narrowing,omitzero"`
}
