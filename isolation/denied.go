// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"net/netip"
	"time"
)

// Denied counts what was dropped of an attachment.
type Denied struct {
	// Packets and Bytes are those to it and from it that a rule or a level denied.
	Packets, Bytes uint64
	// Forged are the packets that it sent as another one.
	Forged uint64
}

// DeniedFlow is a packet that was dropped, as one of its flow: of many, the kernel tells of some.
type DeniedFlow struct {
	Time     time.Time
	From, To netip.Addr
	// Protocol is tcp, udp, sctp or icmp, or the number of another one, and Port the destination's; 0: it has none, or the packet does not tell.
	// What is no packet of IP has no addresses; ARP is arp, and the rest has no protocol either.
	Protocol string
	Port     uint16
	// FromLink is the interface of this host by which it came: that of the source's Member.Link, or of what is forged the end of the attachment.
	// ToLink is that by which it would have gone on; empty: it was for the host, or is forged.
	FromLink, ToLink string
	Reason           Reason
}

// Reason is why a packet was dropped.
type Reason string

// Reasons, with the numbers of what decides in the comment of this package.
const (
	// ByNarrowing is 0.
	ByNarrowing Reason = "narrowed"
	// ByEgress is 2.
	ByEgress Reason = "egress"
	// ByHost is 4: the host does not reach attachments to the network.
	ByHost Reason = "host"
	// ByNetwork is 5.
	ByNetwork Reason = "network"
	// ByStrict is 5, 6 or 7, to a network of the level strict.
	ByStrict Reason = "strict"
	// Forged is what an attachment may not send.
	Forged Reason = "forged"
)
