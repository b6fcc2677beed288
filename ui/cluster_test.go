// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"testing"

	"github.com/allocnet/allocnet/agent/api"
)

// TestRouteProblems: a block of a host that this one replaces is no problem, as for allocnet cluster status.
func TestRouteProblems(t *testing.T) {
	for state, want := range map[string]int{"installed": 0, "replaced": 0, "refused": 1, "conflict": 1, "failed": 1} {
		node := api.ClusterNode{Name: "c3", Routes: []api.ClusterRoute{{Block: "10.91.1.0/26", State: state, Reason: "the address is this host's"}}}
		h := host{Cluster: part[*api.Cluster]{Value: &api.Cluster{Pools: []api.ClusterPool{{Pool: "web", Nodes: []api.ClusterNode{node}}}}}}
		if got := h.ofCluster(); len(got) != want {
			t.Errorf("%s: %+v, want %d problems", state, got, want)
		}
	}
}
