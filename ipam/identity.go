// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

// Host is who this host is to the others.
type Host struct {
	// Instance is the random ID in the state directory, 32 hex digits: what owns blocks. A host
	// whose state directory was lost is another instance.
	Instance string
	// NodeID and NodeName are Nomad's. Empty: the host is no node of Nomad.
	NodeID, NodeName string
	// MachineID is that of /etc/machine-id. Empty: the host has none.
	MachineID string
	// Boot is the kernel's boot ID.
	Boot string
}
