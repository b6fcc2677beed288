// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import "github.com/allocnet/allocnet/allocation"

// DeniedFlow is a flow of which isolation has dropped packets.
type DeniedFlow = allocation.DeniedFlow

// DeniedFlows are those that were denied last.
type DeniedFlows struct {
	// Flows are in the order of their last packets.
	Flows []DeniedFlow `json:"flows"`
	// Deaf is why the agent is not told of flows. Empty: it is.
	Deaf string `json:"deaf,omitempty"`
}
