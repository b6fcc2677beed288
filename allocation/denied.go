// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package allocation

import (
	"fmt"
	"net/netip"
	"time"
)

// Denied counts what isolation has dropped of an attachment.
type Denied struct {
	// Packets and Bytes are those to it and from it that a rule or a level denied.
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	// Forged are the packets that it sent as another one.
	Forged uint64 `json:"forged"`
}

// String is such as "packets denied: 12 (720 bytes), forged: 3"; empty if there were none.
func (d Denied) String() string {
	if d == (Denied{}) {
		return ""
	}
	return fmt.Sprintf("packets denied: %d (%d bytes), forged: %d", d.Packets, d.Bytes, d.Forged)
}

// DeniedFlow is a flow of which packets were dropped. The kernel tells of some of them.
type DeniedFlow struct {
	// First and Last are when the first and the last packet were told of, and Count is how many were.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int       `json:"count"`
	From  FlowEnd   `json:"from"`
	To    FlowEnd   `json:"to"`
	// Protocol is tcp, udp, sctp, icmp or arp, or the number of another one. Empty: it is another frame.
	Protocol string `json:"protocol,omitempty"`
	// Port is the destination's. 0: there is none, or it is not known.
	Port uint16 `json:"port,omitempty"`
	// Reason is narrowed, egress, host, network, strict or forged.
	Reason string `json:"reason"`
}

// FlowEnd is one of the two of a flow.
type FlowEnd struct {
	// Address is not valid for what is no packet of IP.
	Address netip.Addr `json:"address,omitzero"`
	// Allocation, Interface and Network are those of the attachment. Empty: it is none of this host.
	Allocation string `json:"allocation,omitempty"`
	Interface  string `json:"interface,omitempty"`
	Network    string `json:"network,omitempty"`
	// Link is the interface of the host by which its packets pass. Empty: of the destination, that the host is.
	Link string `json:"link,omitempty"`
}

// String is such as "web-1@eth0 (10.0.0.5)".
func (e FlowEnd) String() string {
	address := "a frame"
	if e.Address.IsValid() {
		address = e.Address.String()
	}
	switch {
	case e.Allocation == "" && !e.Address.IsValid():
		return "-"
	case e.Allocation == "":
		return address
	}
	return fmt.Sprintf("%s@%s (%s)", e.Allocation, e.Interface, address)
}

// Service is such as "5432/tcp".
func (f DeniedFlow) Service() string {
	if f.Port == 0 {
		return f.Protocol
	}
	return fmt.Sprintf("%d/%s", f.Port, f.Protocol)
}
