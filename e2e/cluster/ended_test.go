// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// bothKinds are a client whose plugins do their work in process, and one whose plugins are
// programs.
func (s *scene) bothKinds() []*cluster.Machine {
	return []*cluster.Machine{lab.Clients[0], lab.Clients[2]}
}

// TestLongClientKilledWhileStopping kills clients in the middle of the first DEL of a job whose
// allocations have all ended. Nomad 1.11.3 restores them as terminal, and then neither detaches
// them nor removes their namespaces: the agent does.
func TestLongClientKilledWhileStopping(t *testing.T) {
	s := begin(t)
	for _, m := range s.bothKinds() {
		job := cluster.Job{ID: s.name("stopped"), Network: cluster.Flat, Count: 4, Group: on(m)}
		s.start(job)
		s.killDuring("DEL", m, func() error { return lab.Jobs.Deregister(job.ID) }, func() error { return lab.Jobs.RequireEnded(job.ID) })
	}
	s.requireNothingLater()
}

// TestLongClientKilledWhileStarting kills clients in the middle of an ADD of a job that is stopped
// before they are back: Nomad has no state of its allocations' tasks, and forgets them.
func TestLongClientKilledWhileStarting(t *testing.T) {
	s := begin(t)
	for _, m := range s.bothKinds() {
		job := cluster.Job{ID: s.name("started"), Network: cluster.Flat, Count: 4, Group: on(m)}
		s.killDuring("ADD", m, func() error { return lab.Jobs.Submit(job) }, func() error { return nil })
		must(t, lab.Jobs.Deregister(job.ID))
	}
	s.requireNothingLater()
}

// requireNothingLater starts the clients that were killed, and waits until nothing of their
// allocations is left.
func (s *scene) requireNothingLater() {
	s.Helper()
	for _, m := range s.bothKinds() {
		must(s, lab.StartNomad(m))
	}
	must(s, lab.AwaitReady())
	for _, m := range s.bothKinds() {
		s.requireNothing(m)
	}
}

// killDuring kills the client's Nomad while a CNI call is in flight, as soon as there is no
// error. The call goes on then.
func (s *scene) killDuring(verb string, m *cluster.Machine, begin func() error, ready func() error) {
	s.Helper()
	release := s.hold(verb, m)
	must(s, begin())
	must(s, cluster.Await("a "+verb+" on "+m.Name, func() error {
		_, err := os.Stat(m.Path(held))
		return err
	}))
	must(s, cluster.Await("the instant to kill "+m.Name, ready))
	must(s, m.Signal(cluster.Nomad, unix.SIGKILL))
	release()
}

// held and released are directories of a machine: a call is held, and it may go on.
const held, released = "/run/held", "/run/released"

// hold makes the first call with a verb on a machine wait until it is released. Where the plugins
// are programs, that is the one of macvlan, in the middle of a call.
func (s *scene) hold(verb string, m *cluster.Machine) (release func()) {
	s.Helper()
	program := "allocnet-cni"
	if m == lab.Clients[2] {
		program = "macvlan"
	}
	path, next := m.Path("/opt/cni/bin/"+program), m.Path("/opt/cni/"+program)
	real, err := os.Readlink(path)
	must(s, err)
	must(s, errors.Join(os.RemoveAll(m.Path(held)), os.RemoveAll(m.Path(released)))) // of an earlier test
	script := fmt.Sprintf(`#!/bin/sh
if [ "$CNI_COMMAND" = %s ] && mkdir %s 2>/dev/null; then
	while [ ! -d %s ]; do sleep 0.05; done
fi
exec %s "$@"
`, verb, held, released, real)
	must(s, os.WriteFile(next, []byte(script), 0o755)) // Nomad executes it
	must(s, os.Rename(next, path))
	return func() {
		must(s, os.Mkdir(m.Path(released), 0o755))
		must(s, errors.Join(os.Symlink(real, next), os.Rename(next, path)))
	}
}
