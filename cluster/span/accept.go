// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/peers"
)

// verdict is whether packets for a block may be sent to the address that the store has.
type verdict struct {
	accepted bool
	// name is the one that Nomad has of the node. Empty: it does not know the node.
	name string
	// verified is when Nomad said so.
	verified time.Time
	// reason is why it is not accepted, and pending that this is not known for good.
	reason  string
	pending bool
}

// label names the block's host in reports.
func (v verdict) label(r peers.Remote) string {
	if v.name != "" {
		return v.name
	}
	return strconv.Quote(r.Host.NodeID)
}

type accepted struct {
	verdict
	index   uint64
	node    string
	address netip.Addr
	// network is whether the address is in a configured network, rather than Nomad's.
	network bool
}

// acceptor decides which blocks of other hosts get a route. It is not for concurrent use.
type acceptor struct {
	nodes nodes
	// accepted stay while they do not change: Nomad forgets a node that is gone before its blocks
	// are reclaimed.
	accepted map[ipam.Block]accepted
}

func newAcceptor(n Nomad) *acceptor {
	return &acceptor{nodes{nomad: n, known: map[string]knownNode{}}, map[ipam.Block]accepted{}}
}

// decide returns a verdict on each block. With an error it is pending for some.
func (a *acceptor) decide(ctx context.Context, all []peers.Remote, networks []netip.Prefix) (map[ipam.Block]verdict, error) {
	present := map[string]bool{}
	var ask []wanted
	for _, r := range all {
		present[r.Host.NodeID] = true
		if r.Host.NodeID != "" && !a.same(r, networks, r.Index) {
			ask = append(ask, wanted{r.Host.NodeID, r.Endpoint.Address})
		}
	}
	err := a.nodes.ask(ctx, ask)
	verdicts, next := map[ipam.Block]verdict{}, map[ipam.Block]accepted{}
	for _, r := range all {
		v := a.one(r, networks, err)
		verdicts[r.Block] = v
		if v.accepted {
			byNetwork := !a.nodes.known[r.Host.NodeID].has(r.Endpoint.Address) && ipam.AnyContains(networks, r.Endpoint.Address)
			next[r.Block] = accepted{v, r.Index, r.Host.NodeID, r.Endpoint.Address, byNetwork}
		}
	}
	a.accepted = next
	maps.DeleteFunc(a.nodes.known, func(id string, _ knownNode) bool { return !present[id] })
	return verdicts, err
}

// same is whether the block was accepted with this index, node and address, and still would be.
func (a *acceptor) same(r peers.Remote, networks []netip.Prefix, index uint64) bool {
	before, ok := a.accepted[r.Block]
	return ok && before.index == index && before.node == r.Host.NodeID && before.address == r.Endpoint.Address &&
		(!before.network || ipam.AnyContains(networks, r.Endpoint.Address))
}

// one returns the verdict on a block, after err or nothing from Nomad.
func (a *acceptor) one(r peers.Remote, networks []netip.Prefix, err error) verdict {
	id, address := r.Host.NodeID, r.Endpoint.Address
	k := a.nodes.known[id]
	v := verdict{name: k.Name, verified: k.asked}
	before := a.accepted[r.Block]
	switch {
	case id == "":
		v.reason = "its host is no node of Nomad in this region"
	case k.has(address), k.ID != "" && ipam.AnyContains(networks, address):
		v.accepted = true
	case a.same(r, networks, r.Index), err != nil && a.same(r, networks, before.index):
		return before.verdict
	case !k.whole: // the list may lack the address
		v.reason, v.pending = fmt.Sprintf("it is not known yet whether node %q has the address %s", id, address), true
	case k.ID == "":
		v.reason = fmt.Sprintf("nomad knows no node %q", id)
	default:
		v.reason = fmt.Sprintf("%s is no address that Nomad has of node %s, which are %v: if it is one, add its network to node_networks in the block cluster", address, id, k.Addresses)
	}
	return v
}
