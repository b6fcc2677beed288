// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import "net/netip"

// Owner is an attachment, as CNI identifies it.
type Owner struct {
	ContainerID string `json:"containerID"`
	Interface   string `json:"interface"`
}

// Request is what an attachment asks a pool for.
type Request struct {
	Owner Owner
	// Addresses are requested ones, each in a reserved range of the pool. Empty: any.
	Addresses []netip.Addr
	// Job is the allocation's. Zero: the runtime is not Nomad.
	Job Job
}

// Job says for whom an address is, in Nomad's words.
type Job struct {
	// Namespace, Job and Group are those of the job, and Allocation is the allocation's ID.
	Namespace  string `json:"namespace,omitempty"`
	Job        string `json:"job,omitempty"`
	Group      string `json:"group,omitempty"`
	Allocation string `json:"allocation,omitempty"`
	// Key distinguishes the allocations of a group, for sticky addresses: the index of the
	// allocation, or what the job passes. Empty: none.
	Key string `json:"key,omitempty"`
}

// Assigned is an address of an attachment.
type Assigned struct {
	// Address has the prefix length of its subnet.
	Address netip.Prefix
	// Gateway is not valid if the range has none.
	Gateway netip.Addr
}
