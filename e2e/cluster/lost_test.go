// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// Directories that a node can lose.
var (
	stateDirs = []string{"/var/lib/allocnet", "/var/lib/cni"}
	dataDir   = []string{"/var/lib/nomad"}
	allDirs   = []string{"/var/lib/allocnet", "/var/lib/cni", "/var/lib/nomad"}
)

// TestLongStateLost removes what allocnet knows of a host whose allocations run on: their
// addresses are not given out.
func TestLongStateLost(t *testing.T) {
	s := begin(t)
	s.during(func() { s.lose(lab.Clients[0], stateDirs) })
	s.powerCycle(lab.Clients[0]) // what has no record is not removed
}

// TestLongDataLost removes Nomad's directory of a client: it is a new node, and what ran runs on
// without being known to Nomad.
func TestLongDataLost(t *testing.T) {
	s := begin(t)
	s.during(func() { s.lose(lab.Clients[1], dataDir) })
	s.powerCycle(lab.Clients[1])
}

// TestLongBothLost is a host of which only the running allocations are left.
func TestLongBothLost(t *testing.T) {
	s := begin(t)
	old, err := lab.Nodes(lab.Clients[2])
	must(t, err)
	s.during(func() { s.lose(lab.Clients[2], allDirs) })
	s.powerCycle(lab.Clients[2])
	s.release(old)
}

// release returns the blocks of nodes that are gone to the pools. Those of a host whose node
// ID has changed may have an earlier one, for some minutes.
func (s *scene) release(nodes []cluster.Node) {
	s.Helper()
	all := ""
	for _, node := range nodes {
		out, err := lab.Clients[0].Run("allocnet", "ipam", "release", "--node", node.ID, "--force", "--yes")
		must(s, err)
		all += out
	}
	if !strings.Contains(all, "released") {
		s.Errorf("release of %v: %s", nodes, all)
	}
}

// lose removes directories while the daemons of a client do not run.
func (s *scene) lose(m *cluster.Machine, dirs []string) {
	s.Helper()
	must(s, m.Signal(cluster.Agent, unix.SIGKILL))
	must(s, m.Signal(cluster.Nomad, unix.SIGKILL))
	must(s, m.Wipe(dirs...))
	must(s, lab.StartNomad(m))
	must(s, m.StartAgent())
	must(s, cluster.Await(m.Name+" is ready", func() error { return lab.RequireStatus(m, "ready") }))
	job := cluster.Job{ID: s.name("after"), Network: cluster.Flat, Count: 3, Group: on(m)}
	s.start(job)
	must(s, lab.Jobs.Stop(job.ID))
}

// on constrains a group to a machine.
func on(m *cluster.Machine) string {
	return "constraint {\n attribute = \"${node.unique.name}\"\n value = \"" + m.Name + "\"\n}"
}

func (s *scene) powerCycle(m *cluster.Machine) {
	s.Helper()
	m.Off()
	must(s, lab.StartClient(m))
	must(s, lab.AwaitReady())
}

// TestLongRebooted turns a client off, without and with its directories, and on again.
func TestLongRebooted(t *testing.T) {
	s := begin(t)
	s.during(func() {
		m := lab.Clients[0]
		s.powerCycle(m)
		m.Off()
		must(t, m.Wipe(stateDirs...))
		must(t, lab.StartClient(m))
		must(t, lab.AwaitReady())
	})
}

// TestLongReplaced replaces a node by another machine of the same name.
func TestLongReplaced(t *testing.T) {
	s := begin(t)
	s.during(func() {
		m := lab.Clients[1]
		old, err := lab.Nodes(m)
		must(t, err)
		m.Off()
		must(t, m.Wipe("/"))
		must(t, lab.StartClient(m))
		must(t, cluster.Await("the new node is ready", func() error { return lab.RequireStatus(m, "ready") }))
		job := cluster.Job{ID: s.name("after"), Network: cluster.Flat, Count: 3, Group: on(m)}
		s.start(job)
		must(t, lab.Jobs.Stop(job.ID))
		s.release(old)
	})
}
