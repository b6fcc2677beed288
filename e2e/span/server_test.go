// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestServersStopped stops all servers for 60 s. No packet is lost for that, and what others
// remove of the kernel's tables meanwhile is repaired.
func TestServersStopped(t *testing.T) {
	s := begin(t)
	begun := time.Now()
	s.undisturbed("all servers are killed", func() {
		for _, m := range lab.Servers {
			must(t, m.Signal(cluster.Nomad, unix.SIGKILL))
		}
		time.Sleep(12 * time.Second)
	})
	s.interrupted("routes are flushed", func() {
		for _, m := range lab.Clients {
			s.run(m, "ip route flush proto 172; ip -6 route flush proto 172")
		}
	})
	s.interrupted("VXLAN devices are deleted", func() {
		for _, m := range []*cluster.Machine{lab.Clients[0], lab.Clients[2]} {
			s.run(m, "for device in $(ip -brief link show type vxlan | cut -d' ' -f1); do ip link delete $device; done")
		}
	})
	s.interrupted("neighbours and forwarding databases are emptied", func() {
		s.run(lab.Clients[0], "ip neigh flush all nud permanent; for device in $(ip -brief link show type vxlan | cut -d' ' -f1); do ip link set $device down; ip link set $device up; done")
	})
	s.undisturbed("agents are killed, and are started while no server answers", s.killAgents)
	s.undisturbed("the servers are stopped for 60 s", func() { time.Sleep(time.Minute - time.Since(begun)) })
	s.undisturbed("all servers are started", func() {
		for _, m := range lab.Servers {
			must(t, lab.RestartServer(m))
		}
		must(t, lab.AwaitReady())
		time.Sleep(3 * time.Second)
	})
}

// TestLeaderKilled kills the leader, and then agents while there is another one.
func TestLeaderKilled(t *testing.T) {
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

// leader waits until there is one, which is not another one.
func (s *scene) leader(not *cluster.Machine) (m *cluster.Machine) {
	s.Helper()
	must(s, cluster.Await("there is a leader", func() (err error) {
		if m, err = lab.Leader(); err == nil && m == not {
			err = errors.New(m.Name + " is the leader")
		}
		return err
	}))
	return m
}

// killAgents kills the agents of all clients, and starts them after a while.
func (s *scene) killAgents() {
	s.Helper()
	for _, m := range lab.Clients {
		must(s, m.Signal(cluster.Agent, unix.SIGKILL))
	}
	time.Sleep(2 * time.Second)
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
