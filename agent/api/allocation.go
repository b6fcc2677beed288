// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import "github.com/allocnet/allocnet/allocation"

// What the engine tells, which is sent as it is.
type (
	// Allocation is an allocation as recorded.
	Allocation = allocation.Allocation
	// Identity is what the orchestrator says of an allocation.
	Identity = allocation.Identity
	// Attachment is one network of an allocation.
	Attachment = allocation.Attachment
	// Observed is what an attachment has.
	Observed = allocation.Observed
	// DNS is the DNS configuration that the plugins returned.
	DNS = allocation.DNS
	// MappedPort is a port mapping of an attachment.
	MappedPort = allocation.PortMapping
	// AttachmentDetails are what is recorded of an attachment beside Attachment, and what it has on the host.
	AttachmentDetails = allocation.Details
	// Rule is a rule of the host's packet filters.
	Rule = allocation.Rule
	// Lease is that of an address from a pool.
	Lease = allocation.Lease
	// Traffic is what an interface has counted.
	Traffic = allocation.Traffic
	// Remover is a process that has removed rules.
	Remover = allocation.Remover
)

// Details are those of an allocation's attachments, in their order.
type Details struct {
	Attachments []AttachmentDetails `json:"attachments"`
}

// Selection is a list of networks. The agent also accepts one element, or a
// string in the short form of `--networks`, and checks the selection.
type Selection []Element

// What a client asks for, which the engine gets as it is.
type (
	// Element selects one network.
	Element = allocation.Element
	// Bandwidth is the bandwidth capability of the CNI conventions.
	Bandwidth = allocation.Bandwidth
	// PortMapping is an element of the portMappings capability.
	PortMapping = allocation.ChosenPort
	// Port is a port of an allocation, assigned by a scheduler.
	Port = allocation.Port
)
