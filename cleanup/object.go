// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/state"
)

// Kind is what an object is.
type Kind string

// Kinds of objects, after the plugins that make them.
const (
	// Masquerade is what bridge and ptp make for ipMasq.
	Masquerade Kind = "masquerade"
	// Ports are portmap's rules.
	Ports Kind = "ports"
	// Firewall is a rule of the firewall plugin. It names an address only.
	Firewall Kind = "firewall"
	// Lease is an address of host-local.
	Lease Kind = "lease"
	// Link is a network device: the host's end of a veth pair, bandwidth's
	// ifb device, or an interface that DEL left in its namespace.
	Link Kind = "link"
	// Tuning is a file in which the tuning plugin saved settings.
	Tuning Kind = "tuning"
	// Cache is a result in libcni's cache.
	Cache Kind = "cache"
)

// Owner is whom an object belongs to. What is not known is empty.
type Owner struct {
	Network    string `json:"network,omitempty"`
	Allocation string `json:"allocation,omitempty"`
	// ContainerID is the CNI container ID, which is what objects show. It tells
	// the attachments of an allocation apart, and those of another runtime.
	ContainerID string `json:"containerID,omitempty"`
	Interface   string `json:"interface,omitempty"`
}

func ownerOf(network, containerID, iface string) Owner {
	return Owner{Network: network, Allocation: state.AllocationOf(containerID), ContainerID: containerID, Interface: iface}
}

func (o Owner) String() string {
	switch {
	case o.Allocation == "":
		return "unknown"
	case o.Network == "":
		return o.Allocation
	}
	return o.Allocation + " on " + o.Network
}

// Object is one thing on the host that CNI made.
type Object struct {
	Kind  Kind  `json:"kind"`
	Owner Owner `json:"owner"`
	// Where is what it is called by the tools that show it.
	Where string `json:"where"`
	// Addresses are those of the allocation that it is about.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Made is when it was made; zero where nothing tells.
	Made time.Time `json:"made,omitzero"`
	// Blocked says why it cannot be removed; empty when it can.
	Blocked string `json:"blocked,omitempty"`

	// key is the name that the owner hashes to, where only that is known.
	key string
	// One of these says how it is removed.
	chain *chain
	nft   *nftRule
	file  *file
	link  *link
}

// Problem is what could not be examined.
type Problem struct {
	Where  string `json:"where"`
	Reason string `json:"reason"`
}

func (p Problem) String() string { return fmt.Sprintf("%s: %s", p.Where, p.Reason) }

// Found is what a scan found.
type Found struct {
	Objects []Object `json:"objects"`
	// Problems are places that could not be examined. Nothing is known of
	// what is there.
	Problems []Problem `json:"problems,omitempty"`
	// alive are allocations that show a sign of life, whoever made them: the
	// namespace that is named after them or that libcni's cache names.
	alive map[string]string
	// inUse are the addresses in network namespaces, and where they are.
	inUse map[netip.Addr]string

	leaseDirs []string
}

func (f *Found) problem(where string, err error) {
	f.Problems = append(f.Problems, Problem{where, err.Error()})
}
