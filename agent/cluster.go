// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/http"
	"net/netip"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cluster/span"
)

func (a *Agent) getCluster(*http.Request) (any, error) {
	wire := &api.Cluster{Pools: []api.ClusterPool{}}
	for _, s := range a.config.Cluster() {
		wire.Pools = append(wire.Pools, wirePool(s))
	}
	return wire, nil
}

func wirePool(s span.Status) api.ClusterPool {
	wire := api.ClusterPool{
		Pool: s.Pool, Mode: string(s.Mode), Address: known(s.Endpoint.Address), LinkLocal: known(s.Endpoint.LinkLocal), MAC: s.Endpoint.MAC, MTU: s.MTU,
		Blocks: []string{}, Nodes: []api.ClusterNode{}, Listed: s.Listed, Applied: s.Applied, Problems: []api.PoolProblem{},
	}
	for _, b := range s.Own {
		wire.Blocks = append(wire.Blocks, b.String())
	}
	for i := range s.Nodes {
		wire.Nodes = append(wire.Nodes, wireNode(&s.Nodes[i]))
	}
	for _, p := range s.Problems {
		wire.Problems = append(wire.Problems, api.PoolProblem{Problem: string(p.Kind), Text: p.Text})
	}
	return wire
}

func wireNode(n *span.NodeStatus) api.ClusterNode {
	wire := api.ClusterNode{ID: n.ID, Name: n.Name, Address: n.Address.String(), Verified: n.Verified, Routes: []api.ClusterRoute{}}
	for _, r := range n.Routes {
		wire.Routes = append(wire.Routes, api.ClusterRoute{
			Block: r.Block.String(), Via: known(r.Via), Device: r.Device, Mode: string(r.Mode), State: string(r.State), Reason: r.Reason,
		})
	}
	if p := n.Probe; p.Target.IsValid() {
		wire.Probe = &api.ClusterProbe{Target: p.Target.String(), Device: p.Device, Time: p.Time, Seconds: p.Took.Seconds()}
		if p.Err != nil {
			wire.Probe.Error = p.Err.Error()
		}
	}
	return wire
}

// known is the text of an address; empty for none.
func known(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
