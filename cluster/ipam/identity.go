// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"crypto/rand"
	"encoding/hex"
)

// RandomID returns what no other host has: 32 hexadecimal digits.
func RandomID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// Host is who this host is to the others.
type Host struct {
	// Instance is the random ID in the state directory, 32 hex digits: what owns blocks. A host
	// whose state directory was lost is another instance.
	Instance string `json:"instance"`
	// NodeID and NodeName are Nomad's. Empty: the host is no node of Nomad.
	NodeID   string `json:"nodeID,omitempty"`
	NodeName string `json:"nodeName,omitempty"`
	// MachineID is that of /etc/machine-id. Empty: the host has none.
	MachineID string `json:"machineID,omitempty"`
	// Boot is the kernel's boot ID.
	Boot string `json:"boot"`
}
