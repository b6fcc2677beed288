// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"fmt"
	"strings"
)

// separator divides the container ID of an attachment into the allocation and
// the interface. An allocation ID may not contain it.
const separator = ".allocnet."

// ContainerID returns the CNI container ID of an attachment that is not the
// primary, which has the allocation's own. Plugins name chains, rules and devices
// by network and container ID, some by the container ID alone: under one ID two
// attachments, or one of another runtime, would share them, and the first DEL
// would remove them for all.
//
// It is the allocation's ID, ".allocnet." and the interface. Bytes other than
// letters, digits and '-' are written as '_' and two hex digits, so different
// interfaces have different IDs.
func ContainerID(allocation, iface string) string {
	var b strings.Builder
	b.WriteString(allocation + separator)
	for _, c := range []byte(iface) {
		if c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// ContainerIDOf returns the CNI container ID of an attachment.
func ContainerIDOf(allocation, iface string, primary bool) string {
	if primary {
		return allocation
	}
	return ContainerID(allocation, iface)
}

// AllocationOf returns the allocation of a container ID: only objects on
// the host may be left of it. An ID of another form is the
// allocation's own.
func AllocationOf(containerID string) string {
	if at := strings.LastIndex(containerID, separator); at > 0 {
		return containerID[:at]
	}
	return containerID
}

// ValidateContainerID holds a container ID to the same form and length as
// ValidateID.
func ValidateContainerID(id string) error {
	if err := ValidateID(AllocationOf(id)); err != nil {
		return err
	}
	return validateForm(id)
}
