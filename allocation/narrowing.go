// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package allocation

// Narrowing is what a job leaves of the traffic of its allocations, as its author has written it. It allows nothing.
type Narrowing struct {
	// Ingress is what may reach them, and Egress what they may reach. Empty: it leaves all.
	Ingress string `json:"ingress,omitempty"`
	Egress  string `json:"egress,omitempty"`
}
