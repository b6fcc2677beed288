// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongPluginKilled kills CNI calls at random instants.
func TestLongPluginKilled(t *testing.T) {
	s := begin(t)
	s.during(func() {
		for range 10 {
			must(t, cluster.Await("a CNI call is killed", s.killCall))
		}
	})
}

// killCall kills one of the CNI calls that run on any machine, after a random while.
func (s *scene) killCall() error {
	calls, err := s.pluginCalls()
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

// TestLongClientKilled kills clients at random instants, whose allocations run on.
func TestLongClientKilled(t *testing.T) {
	s := begin(t)
	s.during(func() {
		for range 3 {
			m := lab.Clients[rand.N(3)]
			s.restart(m, cluster.Nomad, func() error { return lab.StartNomad(m) })
		}
		must(t, lab.AwaitReady())
	})
}

// TestLongLeaderKilled kills leaders at random instants.
func TestLongLeaderKilled(t *testing.T) {
	s := begin(t)
	s.during(func() {
		for range 2 {
			m := s.leader(nil)
			s.restart(m, cluster.Nomad, func() error { return lab.RestartServer(m) })
			s.leader(nil)
		}
	})
}

// TestLongLeaderStopped stops the leader until another one schedules: it does not answer, and believes to
// be the leader when it goes on.
func TestLongLeaderStopped(t *testing.T) {
	s := begin(t)
	s.during(func() {
		m := s.leader(nil)
		must(t, m.Signal(cluster.Nomad, unix.SIGSTOP))
		job := s.scheduleWithout(m)
		must(t, m.Signal(cluster.Nomad, unix.SIGCONT))
		s.finish(job)
	})
}

// scheduleWithout waits until there is another leader, which places the allocations of a job. Clients
// may not know of them as long as they ask the old one.
func (s *scene) scheduleWithout(old *cluster.Machine) cluster.Job {
	s.Helper()
	s.leader(old)
	job := cluster.Job{ID: s.name("scheduled"), Network: cluster.Flat, Count: 3}
	must(s, lab.Jobs.Submit(job))
	must(s, cluster.Await("the job is scheduled", func() error {
		list, err := lab.Jobs.Allocations(job.ID)
		if err == nil && len(list) < job.Count {
			err = fmt.Errorf("%d allocations: %s", len(list), cluster.Explain(list))
		}
		return err
	}))
	return job
}

// finish waits until the allocations of a job run, and stops it.
func (s *scene) finish(job cluster.Job) {
	s.Helper()
	list, err := lab.Jobs.AwaitRunning(job.ID, job.Count)
	must(s, errors.Join(err, distinct(list)))
	must(s, lab.Jobs.Stop(job.ID))
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

// TestLongClientPartitioned takes a client off the servers until its allocations are lost, and
// others have been started in their place: there are two generations of allocations at once.
func TestLongClientPartitioned(t *testing.T) {
	s := begin(t)
	s.during(func() {
		m := lab.Clients[0]
		must(t, m.Unplug())
		must(t, cluster.Await("the node is down", func() error { return lab.RequireStatus(m, "down") }))
		others, err := lab.Jobs.AwaitRunning(s.steady.ID, s.steady.Count)
		must(t, err)
		must(t, cluster.Await("the watcher sees the addresses", s.answering(others)))
		must(t, m.Plug())
		must(t, lab.AwaitReady())
	})
}

// TestLongServerPartitioned takes the leader off the other servers, until another one starts what it had
// begun. Clients reach all of them.
func TestLongServerPartitioned(t *testing.T) {
	s := begin(t)
	s.during(func() {
		m := s.leader(nil)
		s.route(m, "add")
		job := s.scheduleWithout(m)
		s.route(m, "delete")
		s.finish(job)
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
