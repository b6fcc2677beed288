// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"cmp"
	"net/netip"
	"slices"
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
