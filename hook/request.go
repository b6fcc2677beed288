// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import "github.com/allocnet/allocnet/hook/internal/plan"

// What a caller asks for, and why it is refused, is declared where requests become plans: go doc ./hook/internal/plan.
type (
	// Request says which networks an allocation shall have.
	Request = plan.Request
	// Step is one attempt to attach a network.
	Step = plan.Step
	// RequestError is a request that is refused before anything is done.
	RequestError = plan.RequestError
)

// Selections of an allocation's DNS, besides the name of one of its networks.
const (
	// PrimaryDNS is that of the primary network.
	PrimaryDNS = plan.PrimaryDNS
	// MergedDNS is the primary's, then those of the extra networks in the order of their interfaces' numbering.
	MergedDNS = plan.MergedDNS
)
