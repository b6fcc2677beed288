// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongLeaderKilled kills the leader, and then agents while there is another one.
func TestLongLeaderKilled(t *testing.T) {
	s := begin(t)
	var old *cluster.Machine
	s.undisturbed("the leader is killed", func() {
		old = s.leader(nil)
		must(t, old.Signal(cluster.Nomad, unix.SIGKILL))
		s.leader(old)
	})
	s.undisturbed("agents are killed", s.killAgents)
	s.undisturbed("the server is started", func() {
		must(t, lab.RestartServer(old))
		must(t, lab.AwaitReady())
	})
}

// TestServersStopped stops all servers, until the agents have seen it twice. No packet is lost for
// that, and what others remove of the kernel's tables meanwhile is repaired.
func TestServersStopped(t *testing.T) {
	s := begin(t)
	s.undisturbed("all servers are killed", func() {
		for _, m := range lab.Servers {
			must(t, m.Signal(cluster.Nomad, unix.SIGKILL))
		}
		s.storeFails(true)
	})
	s.during("routes are flushed", func() {
		for _, m := range lab.Clients {
			s.run(m, "ip route flush proto 172; ip -6 route flush proto 172")
		}
	})
	s.during("VXLAN devices are deleted", func() {
		for _, m := range []*cluster.Machine{lab.Clients[0], lab.Clients[2]} {
			s.run(m, "for device in $(ip -brief link show type vxlan | cut -d' ' -f1); do ip link delete $device; done")
		}
	})
	s.during("neighbours and forwarding databases are emptied", func() {
		s.run(lab.Clients[0], "ip neigh flush all nud permanent; for device in $(ip -brief link show type vxlan | cut -d' ' -f1); do ip link set $device down; ip link set $device up; done")
	})
	s.undisturbed("agents are killed, and are started while no server answers", func() {
		s.killAgents()
		s.storeFails(true)
	})
	s.undisturbed("all servers are started", func() {
		for _, m := range lab.Servers {
			must(t, lab.RestartServer(m))
		}
		must(t, lab.AwaitReady())
		s.storeFails(false)
	})
}

// storeFails waits until all agents say that they cannot read the store of a pool, or none does.
func (s *scene) storeFails(want bool) {
	s.Helper()
	for _, m := range lab.Clients {
		must(s, cluster.Await(fmt.Sprintf("the agent of %s cannot read the store: %t", m.Name, want), func() error {
			pool, err := statusOf(m, networks[0])
			if err != nil {
				return err
			}
			if fails := slices.ContainsFunc(pool.Problems, func(p api.PoolProblem) bool { return p.Problem == "store" }); fails != want {
				err = fmt.Errorf("the problems are %+v", pool.Problems)
			}
			return err
		}))
	}
}

// leader waits until there is one, which is not another one.
func (s *scene) leader(not *cluster.Machine) (m *cluster.Machine) {
	s.Helper()
	must(s, cluster.Await("there is a leader", func() (err error) {
		m, err = lab.Leader(not)
		return err
	}))
	return m
}

// killAgents kills the agents of all clients, and starts them after packets were sent without them.
func (s *scene) killAgents() {
	s.Helper()
	for _, m := range lab.Clients {
		must(s, m.Signal(cluster.Agent, unix.SIGKILL))
	}
	s.counted()
	for _, m := range lab.Clients {
		must(s, m.StartAgent())
	}
	for _, m := range lab.Clients {
		must(s, cluster.Await("the agent of "+m.Name+" answers", func() error {
			_, err := askStatus(m)
			return err
		}))
	}
}
