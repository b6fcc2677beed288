// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/internal/inprocess/firewall"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/state"
)

// Kind is the kind of an object.
type Kind string

// Owner is the attachment that an object belongs to. Fields that are not known are empty.
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

// Object is a rule, chain, file or link on the host that a CNI plugin made.
type Object struct {
	Kind  Kind  `json:"kind"`
	Owner Owner `json:"owner"`
	// Where is its name in the tools that show it, or its path.
	Where string `json:"where"`
	// Addresses are the allocation's, as far as the object names them.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Created is when it was made; zero where that is not known.
	Created time.Time `json:"created,omitzero"`
	// Blocked says why it cannot be removed; empty when it can.
	Blocked string `json:"blocked,omitempty"`

	// networks are those that it can belong to where Owner.Network is empty.
	networks []string
	// key is what the plugin derived from the owner; empty where it shows none.
	key string
	// provesDeath is whether it is only there, without a record, if its allocation is dead.
	provesDeath bool
	// nameOnly is whether the owner was read from a name that can have two.
	nameOnly bool
	// addressOnly is whether it names its owner by the address alone.
	addressOnly bool
	// One of these is set, and removes it.
	chain  *chain
	nft    *nftObject
	file   *file
	link   interface{ remove(k kernel) error }
	source *firewall.Source

	resolvConf *resolvconf.File
}

// Networks returns those that the object can belong to.
func (o Object) Networks() []string {
	if o.Owner.Network != "" {
		return []string{o.Owner.Network}
	}
	return o.networks
}

// Problem is a place that could not be examined.
type Problem struct {
	Where  string `json:"where"`
	Reason string `json:"reason"`
}

func (p Problem) String() string { return fmt.Sprintf("%s: %s", p.Where, p.Reason) }

type scanResult struct {
	Objects []Object `json:"objects"`
	// Problems are places that could not be examined: their objects are not known.
	Problems []Problem `json:"problems,omitempty"`

	// homes are the namespaces that libcni's cache names and that exist.
	homes  []home
	places []netns.Place
	// unseen joins the errors of those that could not be looked into. Nil: all were.
	unseen error

	leaseDirs []string
	// unlisted joins the errors of the sources that could not be listed. Nil: all were.
	unlisted error
	// look returns what is left once rules are removed. Nil: nothing else is looked for.
	look func() []Failure
	// host is the one that was scanned. Nil: this one.
	host *host
}

func (f *scanResult) problem(where string, err error) {
	f.Problems = append(f.Problems, Problem{where, err.Error()})
}
