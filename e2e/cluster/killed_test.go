// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestPluginKilled kills CNI calls at random instants.
func TestPluginKilled(t *testing.T) {
	s := begin(t)
	s.during(func() {
		for range 10 {
			must(t, cluster.Await("a CNI call is killed", killCall))
		}
	})
}

// killCall kills one of the CNI calls that run on any machine, after a random while.
func killCall() error {
	calls, err := pluginCalls()
	if err != nil || len(calls) == 0 {
		return fmt.Errorf("no CNI call runs: %w", err)
	}
	pause(20 * time.Millisecond)
	return unix.Kill(calls[rand.N(len(calls))], unix.SIGKILL)
}

// TestAgentKilled kills allocnet agents at random instants.
func TestAgentKilled(t *testing.T) {
	s := begin(t)
	s.during(func() {
		for range 3 {
			m := lab.Clients[rand.N(3)]
			s.restart(m, cluster.Agent, m.StartAgent)
		}
	})
}

// TestClientKilled kills clients at random instants, whose allocations run on.
func TestClientKilled(t *testing.T) {
	s := begin(t)
	s.during(func() {
		for range 3 {
			m := lab.Clients[rand.N(3)]
			s.restart(m, cluster.Nomad, func() error { return lab.StartNomad(m) })
		}
		must(t, lab.AwaitReady())
	})
}

// TestLeaderKilled kills leaders at random instants.
func TestLeaderKilled(t *testing.T) {
	s := begin(t)
	s.during(func() {
		for range 2 {
			m := s.leader()
			s.restart(m, cluster.Nomad, func() error { return lab.RestartServer(m) })
			s.leader()
		}
	})
}

// TestLeaderStopped stops the leader for 30 s: it does not answer, and believes to be the
// leader when it goes on.
func TestLeaderStopped(t *testing.T) {
	t.Parallel() // with TestDemo, which has a cluster of its own
	s := begin(t)
	s.during(func() {
		m := s.leader()
		must(t, m.Signal(cluster.Nomad, unix.SIGSTOP))
		time.Sleep(30 * time.Second)
		must(t, m.Signal(cluster.Nomad, unix.SIGCONT))
	})
}

// leader waits until there is one.
func (s *scene) leader() (m *cluster.Machine) {
	s.Helper()
	must(s, cluster.Await("there is a leader", func() (err error) {
		m, err = lab.Leader()
		return err
	}))
	return m
}

// TestClientPartitioned takes a client off the servers until its allocations are lost, and
// others have been started in their place.
func TestClientPartitioned(t *testing.T) {
	s := begin(t)
	s.during(func() {
		m := lab.Clients[0]
		must(t, m.Unplug())
		must(t, cluster.Await("the node is down", func() error { return lab.RequireStatus(m, "down") }))
		time.Sleep(5 * time.Second) // of two generations of allocations at once
		must(t, m.Plug())
		must(t, lab.AwaitReady())
	})
}

// TestServerPartitioned takes the leader off the other servers. Clients reach all of them.
func TestServerPartitioned(t *testing.T) {
	s := begin(t)
	s.during(func() {
		m := s.leader()
		s.route(m, "add")
		time.Sleep(5 * time.Second) // it steps down within one, and others start what it had begun
		s.route(m, "delete")
	})
}

// route adds or deletes what makes the other servers unreachable from one.
func (s *scene) route(m *cluster.Machine, verb string) {
	s.Helper()
	for _, other := range lab.Servers {
		if other == m {
			continue
		}
		_, err := m.Run("ip", "route", verb, "blackhole", other.Address.String()+"/32")
		must(s, err)
	}
}
