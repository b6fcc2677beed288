// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestStatus: each client has a route to the blocks of each other one, but for those that the
// mode routed cannot reach, which it says.
func TestStatus(t *testing.T) {
	s := take(t)
	s.runJob()
	for _, m := range lab.Clients {
		must(t, cluster.Await(m.Name+" has its routes", func() error { return s.complete(m) }))
	}
}

func (s *scene) complete(m *cluster.Machine) error {
	for _, other := range lab.Clients {
		for _, network := range networks {
			want := "installed"
			if !slices.Contains(shared(m.Name, other.Name), network) {
				want = "refused"
			}
			if m == other {
				continue
			}
			if err := requireState(m, network, other, nil, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// requireState is an error unless the routes to blocks of another client have a state. Nil are
// all of its blocks.
func requireState(m *cluster.Machine, network string, other *cluster.Machine, blocks []string, state string) error {
	pool, err := statusOf(m, network)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pool.Nodes, func(n api.ClusterNode) bool { return n.Name == other.Name })
	if i < 0 {
		return fmt.Errorf("%s does not know %s on %s: %+v", m.Name, other.Name, network, pool)
	}
	for _, r := range pool.Nodes[i].Routes {
		if (blocks == nil || slices.Contains(blocks, r.Block)) && r.State != state {
			return fmt.Errorf("%s, %s: the route to %s is %+v, want it %s", m.Name, network, other.Name, r, state)
		}
	}
	return nil
}

// statusOf is what a client says of a pool.
func statusOf(m *cluster.Machine, pool string) (found api.ClusterPool, err error) {
	status, err := askStatus(m)
	if err != nil {
		return found, err
	}
	i := slices.IndexFunc(status.Pools, func(p api.ClusterPool) bool { return p.Pool == pool })
	if i < 0 {
		return found, fmt.Errorf("%s has no pool %s: %+v", m.Name, pool, status)
	}
	return status.Pools[i], nil
}

// askStatus ignores the exit code, which says that a route is missing.
func askStatus(m *cluster.Machine) (status api.Cluster, err error) {
	out, failed := m.Command("allocnet", "cluster", "status", "--json").Output()
	if err := json.Unmarshal(out, &status); err != nil {
		return status, fmt.Errorf("%w, %w: %s", failed, err, out)
	}
	return status, nil
}
