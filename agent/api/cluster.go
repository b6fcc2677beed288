// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import "time"

// Cluster is what connects this host with others.
type Cluster struct {
	// Pools are those whose networks span hosts, by name.
	Pools []ClusterPool `json:"pools"`
}

// ClusterPool is a pool of allocnet-ipam whose networks span hosts.
type ClusterPool struct {
	Pool string `json:"pool"`
	// Mode is routed, vxlan or auto. Empty: no network uses the pool any more.
	Mode string `json:"mode,omitempty"`
	// Address, LinkLocal and MAC are where other hosts send what is for this host. Empty: they
	// have not been told, or there is none.
	Address   string `json:"address,omitempty"`
	LinkLocal string `json:"linkLocal,omitempty"`
	MAC       string `json:"mac,omitempty"`
	// MTU is that of packets to other hosts. 0: it is not known yet.
	MTU int `json:"mtu,omitempty"`
	// Blocks are this host's.
	Blocks []string `json:"blocks"`
	// Nodes are the hosts that have the other blocks, by name.
	Nodes []ClusterNode `json:"nodes"`
	// Listed is when the blocks were read from the store, and Applied when the kernel's tables
	// were compared with them. Zero: never.
	Listed  time.Time `json:"listed,omitzero"`
	Applied time.Time `json:"applied,omitzero"`
	// Problems are why routes may be missing.
	Problems []PoolProblem `json:"problems"`
}

// ClusterNode is a host that has blocks of a pool.
type ClusterNode struct {
	// ID and Name are Nomad's. Empty: Nomad does not know the host.
	ID      string `json:"id,omitempty"`
	Name    string `json:"name,omitempty"`
	Address string `json:"address"`
	// Verified is when Nomad last said that the node has the address. Zero: never.
	Verified time.Time `json:"verified,omitzero"`
	// Routes are those to the host's blocks.
	Routes []ClusterRoute `json:"routes"`
	// Probe is the last one, or the next. Nil: the host has no route through which it would
	// answer.
	Probe *ClusterProbe `json:"probe,omitempty"`
}

// ClusterRoute is the route to a block.
type ClusterRoute struct {
	Block string `json:"block"`
	// Via is the next hop, Device the interface, and Mode routed or vxlan. Empty: there is no
	// route.
	Via    string `json:"via,omitempty"`
	Device string `json:"device,omitempty"`
	Mode   string `json:"mode,omitempty"`
	// State is installed, refused, conflict, failed, or replaced: the block's host had the address of this one.
	State string `json:"state"`
	// Reason is why it is not installed.
	Reason string `json:"reason,omitempty"`
}

// States of a route that is as it should be.
const (
	// RouteInstalled is a route that the kernel has.
	RouteInstalled = "installed"
	// RouteReplaced is that of a block whose host had this host's address.
	RouteReplaced = "replaced"
)

// IsRight tells whether nothing is wrong with the route.
func (r ClusterRoute) IsRight() bool { return r.State == RouteInstalled || r.State == RouteReplaced }

// ProblemUnrouted is the problem of a pool that some routes are not right, which their reasons say.
const ProblemUnrouted = "unrouted"

// ClusterProbe is an echo request to a host.
type ClusterProbe struct {
	// Target is the address that it is sent to; a link-local one has its interface as zone.
	Target string `json:"target"`
	// Device is the VXLAN device through which it is sent. Empty: none.
	Device string `json:"device,omitempty"`
	// Time is when it was sent, and Seconds how long the reply took. Zero: none was sent yet.
	Time    time.Time `json:"time,omitzero"`
	Seconds float64   `json:"seconds,omitempty"`
	// Error is why there is no reply.
	Error string `json:"error,omitempty"`
}
