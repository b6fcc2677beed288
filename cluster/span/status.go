// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/peers"
	"github.com/allocnet/allocnet/cluster/route"
)

// Status is the state of a pool.
type Status struct {
	Pool string
	Mode ipam.Mode
	// Endpoint is where other hosts send what is for this host. Not valid: they do not know yet.
	Endpoint ipam.Endpoint
	// MTU is that of packets to other hosts. 0: it is not known yet.
	MTU int
	// Own are the blocks of this host, and Nodes those who have the others, by name.
	Own   []ipam.Block
	Nodes []NodeStatus
	// Listed is when the blocks were read from the store, and Applied when the kernel's tables
	// were last compared with them. Zero: never.
	Listed, Applied time.Time
	Problems        []Problem
}

// NodeStatus is a host that has blocks of a pool.
type NodeStatus struct {
	// ID is what the host's entries in the store have, and Name what Nomad has. Empty: it is not
	// known.
	ID, Name string
	Address  netip.Addr
	// Verified is when Nomad last said that the node has this address. Zero: never.
	Verified time.Time
	// Routes are those to the host's blocks, refused ones included.
	Routes []route.Route
	// Probe is the last one, or the next.
	Probe Probe
}

func nodesOf(blocks peers.Blocks, verdicts map[ipam.Block]verdict, routes map[ipam.Block]route.Route) []NodeStatus {
	type host struct{ instance, node string }
	found := map[host]*NodeStatus{}
	for _, r := range blocks.Remote {
		v := verdicts[r.Block]
		key := host{r.Host.Instance, r.Host.NodeID}
		n := found[key]
		if n == nil {
			n = &NodeStatus{ID: r.Host.NodeID, Name: v.name, Address: r.Endpoint.Address, Verified: v.verified}
			found[key] = n
		}
		made, ok := routes[r.Block]
		if !ok {
			made = route.Route{Block: r.Block, Node: v.label(r), State: route.Refused, Reason: v.reason}
		}
		n.Routes = append(n.Routes, made)
	}
	nodes := make([]NodeStatus, 0, len(found))
	for _, n := range found {
		n.Probe = probeOf(n.Routes, n.Address, len(blocks.Own) > 0)
		nodes = append(nodes, *n)
	}
	slices.SortFunc(nodes, func(a, b NodeStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID), a.Address.Compare(b.Address), a.Routes[0].Block.Compare(b.Routes[0].Block))
	})
	return nodes
}

// Kind is what keeps a pool's routes from being right.
type Kind string

const (
	// AddressUnknown is that this host does not know its own address.
	AddressUnknown Kind = "address"
	// DeviceFailed is a VXLAN device that could not be made.
	DeviceFailed Kind = "device"
	// EndpointFailed is that the other hosts could not be told where this host is.
	EndpointFailed Kind = "endpoint"
	// StoreFailed is a store that does not answer. The present routes stay.
	StoreFailed Kind = "store"
	// NodesFailed is that Nomad does not say which nodes there are. The present routes stay.
	NodesFailed Kind = "nodes"
	// KernelFailed is that the kernel's tables could not be read or changed.
	KernelFailed Kind = "kernel"
	// Invalid are entries of the store that are no block of another host.
	Invalid Kind = "invalid"
	// Unrouted are blocks of other hosts to which the kernel has no route of ours: also those
	// whose address is not that of their node.
	Unrouted Kind = "unrouted"
	// Filtered is that this host drops packets of other hosts.
	Filtered Kind = "filtered"
	// Unguarded is that packets of others than the pool's hosts get into its VXLAN.
	Unguarded Kind = "unguarded"
	// Overlapping is a pool with a part of the subnets of another one, which has its routes. This
	// one has none.
	Overlapping Kind = "overlap"
)

// Kinds are all kinds of problems, in the order in which they are reported.
var Kinds = []Kind{AddressUnknown, DeviceFailed, EndpointFailed, StoreFailed, NodesFailed, KernelFailed, Invalid, Unrouted, Filtered, Unguarded, Overlapping}

// Problem is a problem of a pool.
type Problem struct {
	Kind Kind
	// Text says what the problem is.
	Text string
}

// mostNamed bounds the blocks that a problem names: others may write as many as they like.
const mostNamed = 5

func list(texts []string) string {
	slices.Sort(texts)
	if more := len(texts) - mostNamed; more > 0 {
		texts = append(texts[:mostNamed:mostNamed], "...")
	}
	return strings.Join(texts, "; ")
}
