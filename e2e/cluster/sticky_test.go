// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongSticky drains nodes, one after the other, five times: each index of the job keeps its
// address.
func TestLongSticky(t *testing.T) {
	s := begin(t)
	s.watchers = append(s.watchers, s.watch(cluster.KeptSubnet))
	spread := "spread {\n attribute = \"${node.unique.name}\"\n}"
	job := cluster.Job{ID: s.name("kept"), Network: cluster.Kept, Count: 3, Group: spread}
	address, moved := map[string]string{}, 0
	for _, a := range s.start(job) {
		address[a.Index()] = a.Address().String()
	}
	for i := range 5 {
		m := lab.Clients[i%3]
		moved += s.count(job, m)
		s.drain(m)
		must(t, cluster.Await("the allocations have moved", func() error { return s.requireKept(job, m, address) }))
		s.undrain(m)
	}
	if moved < 5 {
		t.Errorf("%d allocations have moved, want one of each drained node", moved)
	}
}

// count returns how many allocations of a job run on a machine.
func (s *scene) count(job cluster.Job, m *cluster.Machine) (n int) {
	s.Helper()
	found, err := lab.Jobs.AwaitRunning(job.ID, job.Count)
	must(s, err)
	for _, a := range found {
		if a.NodeName == m.Name {
			n++
		}
	}
	return n
}

// requireKept is an error unless each index runs with its address, on another machine than m.
func (s *scene) requireKept(job cluster.Job, m *cluster.Machine, address map[string]string) error {
	found, err := lab.Jobs.Running(job.ID, job.Count)
	if err != nil {
		return err
	}
	for _, a := range found {
		if got := a.Address().String(); got != address[a.Index()] {
			s.Fatalf("%s has %s, and had %s", a.Name, got, address[a.Index()])
		}
		if a.NodeName == m.Name {
			return fmt.Errorf("%s is on %s still", a.Name, m.Name)
		}
	}
	return nil
}

func (s *scene) drain(m *cluster.Machine) {
	s.Helper()
	must(s, lab.Drain(m, true))
}

func (s *scene) undrain(m *cluster.Machine) {
	s.Helper()
	must(s, lab.Drain(m, false))
}
