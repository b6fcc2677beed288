// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package connect

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/state"
)

// Node is a node that Nomad knows.
type Node struct {
	ID, Name string
	// Addresses are where Nomad says that the node is: the first is that of its network, if it
	// is known. Empty: Nomad has no address, but a name.
	Addresses []netip.Addr
}

// networkAddress is the attribute with the address that Nomad's client has found.
const networkAddress = "unique.network.ip-address"

// nodesPage is how many nodes are asked for at once.
const nodesPage = "500"

// Nodes returns the nodes of the region, with the addresses of their HTTP API. Those of their
// networks are not in Nomad's list.
func (c *Connection) Nodes(ctx context.Context) ([]Node, error) {
	query := url.Values{"per_page": {nodesPage}, "stale": {""}}
	var all []Node
	for {
		var page []struct{ ID, Name, Address string }
		next, err := c.getPage(ctx, "/v1/nodes", query, &page)
		if err != nil {
			return nil, err
		}
		for _, n := range page {
			all = append(all, Node{ID: n.ID, Name: n.Name, Addresses: addresses(n.Address)})
		}
		if next == "" {
			return all, nil
		}
		query.Set("next_token", next)
	}
}

// Node returns a node, with the address of its network; the zero value for one that Nomad does
// not know. The ID is of a store's entry, which anyone may have written.
func (c *Connection) Node(ctx context.Context, id string) (Node, error) {
	if !state.IsNomadID(id) {
		return Node{}, nil
	}
	var n struct {
		ID, Name, HTTPAddr string
		Attributes         map[string]string
	}
	err := c.get(ctx, "/v1/node/"+id, url.Values{}, &n)
	if isStatus(err, http.StatusNotFound) || err == nil && n.ID != id {
		return Node{}, nil
	}
	if err != nil {
		return Node{}, err
	}
	host, _, _ := net.SplitHostPort(n.HTTPAddr) // empty if it is no address
	return Node{ID: n.ID, Name: n.Name, Addresses: addresses(n.Attributes[networkAddress], host)}, nil
}

// Self returns this host's node; the zero value if the host is no node of the store's region.
func (c *Connection) Self(ctx context.Context) (Node, error) {
	_, host, err := c.Open()
	if err != nil || host.NodeID == "" {
		return Node{}, err
	}
	n, err := c.Node(ctx, host.NodeID)
	if err == nil && n.ID == "" {
		err = fmt.Errorf("%w: nomad does not know this host as node %q", ipam.ErrUnavailable, host.NodeID)
	}
	return n, err
}

// addresses returns the texts that are addresses, each once.
func addresses(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}
