// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/agent/api"
)

type poolsPage struct {
	Networks part[*api.Networks]
	Pools    part[*api.Pools]
	// Nodes have the blocks of each pool whose networks span hosts.
	Nodes map[string][]nodeBlocks
}

type nodeBlocks struct {
	Node   string
	Blocks []string
}

func (s *Server) pools(ctx context.Context, _ *http.Request) (content, error) {
	h, err := look(ctx, s.config.Agent)
	if err != nil {
		return content{}, err
	}
	p := poolsPage{Networks: h.Networks, Pools: h.Pools, Nodes: map[string][]nodeBlocks{}}
	if h.Cluster.Err == nil {
		for _, c := range h.Cluster.Value.Pools {
			p.Nodes[c.Pool] = s.blocksByNode(c)
		}
	}
	return content{"pools", "Networks and pools", p}, nil
}

// blocksByNode has this host first.
func (s *Server) blocksByNode(p api.ClusterPool) []nodeBlocks {
	all := []nodeBlocks{{s.config.Host + " (this host)", p.Blocks}}
	for _, n := range p.Nodes {
		blocks := make([]string, len(n.Routes))
		for i, r := range n.Routes {
			blocks[i] = r.Block
		}
		all = append(all, nodeBlocks{cmp.Or(n.Name, n.ID, n.Address), blocks})
	}
	slices.SortStableFunc(all[1:], func(a, b nodeBlocks) int { return strings.Compare(a.Node, b.Node) })
	return all
}

// bar shows numbers as parts of a whole.
type bar struct {
	// Used and Cooling are percentages.
	Used, Cooling float64
	// Class is full or tight if there is not much left.
	Class string
}

func barOf(used, cooling, total float64) bar {
	if total <= 0 {
		return bar{}
	}
	b := bar{Used: min(100, 100*used/total)}
	if used > 0 {
		b.Used = max(b.Used, 0.75) // which can be seen
	}
	b.Cooling = min(100-b.Used, 100*cooling/total)
	switch left := 100 - b.Used - b.Cooling; {
	case left <= 0:
		b.Class = "full"
	case left < 15:
		b.Class = "tight"
	}
	return b
}

func usageBar(u api.NetworkUsage) bar { return barOf(float64(u.Used), 0, u.Total) }

// addressBar is the bar of a pool's blocks on this host.
func addressBar(a api.PoolAddresses) bar {
	return barOf(float64(a.Used), float64(a.Cooling), float64(a.Used+a.Cooling+a.Free))
}
