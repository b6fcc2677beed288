// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"errors"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// small is a network with a pool of four blocks, for allocations without Nomad.
const small = "small"

// smallPlugin is its plugin.
const smallPlugin = `{"type": "ptp", "ipMasq": true, "ipam": {"type": "allocnet-ipam", "pool": "small", "mode": "auto",
	"ranges": [{"subnet": "10.99.0.0/27"}], "blockSize": {"4": 29}, "cooldown": "1s"}}`

// withoutJob returns the cluster without the job.
func withoutJob(t *testing.T) *scene {
	t.Helper()
	s := take(t)
	must(t, lab.Jobs.Stop(job.ID))
	return s
}

// attach attaches an allocation to the small network, which answers there. A store that does not
// answer in time, as Nomad's servers do on a loaded machine, is asked again, as a scheduler does.
func (s *scene) attach(m *cluster.Machine, id string) peer {
	s.Helper()
	var refused error
	must(s, cluster.Await("the store is available to "+id, func() error {
		_, refused = m.Run("allocnet", "attach", id, "--primary", small)
		if refused != nil && strings.Contains(refused.Error(), ipam.ErrUnavailable.Error()) {
			return refused
		}
		return nil
	}))
	must(s, refused)
	return s.serve(m, id)
}

// serve lets an attached allocation answer.
func (s *scene) serve(m *cluster.Machine, id string) peer {
	s.Helper()
	p := s.examine(cluster.Allocation{ID: id, NodeName: m.Name})
	server := p.command("traffic", "serve")
	must(s, server.Start())
	s.Cleanup(func() {
		_ = errors.Join(server.Process.Kill(), server.Wait()) // nsenter; its machine may be gone
		if m.IsOn() {
			_, _ = m.Run("sh", "-c", "kill $(ip netns pids "+id+"); allocnet detach "+id) // the same
		}
	})
	return p
}

// requireReach: one reaches the other.
func (s *scene) requireReach(from, to peer) {
	s.Helper()
	out, err := from.command("traffic", "reach", to.addresses[small][0].String()).CombinedOutput()
	if err != nil {
		s.Errorf("%s does not reach %s on %s: %v: %s", from.ID, to.ID, to.machine.Name, err, out)
	}
}
