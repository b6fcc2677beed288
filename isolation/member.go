// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import "net/netip"

// Member is an attachment, as rules see it.
type Member struct {
	// ID is the container ID of the attachment, which is unique on a host. Of one on another host it is made of its address.
	ID string
	// Host is the other host that it is on. Empty: this one.
	Host string
	// Network is the name of its network, and Level that network's.
	Network string
	Level   Level
	// NoHost is whether the host does not reach it, but by rules allow.
	NoHost bool
	// Ingress and Egress are what its job leaves of what reaches it, and of what it reaches. Of one on another host they are not known here:
	// that host has them hold.
	Ingress, Egress Narrowing
	// Namespace, Job and Group are the allocation's in the orchestrator; empty: unknown.
	Namespace, Job, Group string
	// Index is its number in the group, which rules are not about. Nil: unknown.
	Index *uint32
	// Addresses are those of the attachment.
	Addresses []netip.Addr
	// Link is the interface of the host by which its packets are routed: the bridge, or the end of a ptp pair. Empty: it
	// is on another host, or Inside.
	Link string
	// Inside is whether it is kept apart in its own namespace: the host is to it as any other machine, and it is none of allocnet to hosts.
	Inside bool
}
