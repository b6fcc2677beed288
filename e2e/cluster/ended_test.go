// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// bothKinds are a client whose plugins do their work in process, and one whose plugins are
// programs.
func bothKinds() []*cluster.Machine { return []*cluster.Machine{lab.Clients[0], lab.Clients[2]} }

// TestClientKilledWhileStopping kills clients in the middle of the first DEL of a job whose
// allocations have all ended. Nomad 1.11.3 restores them as terminal, and then neither detaches
// them nor removes their namespaces: the agent does.
func TestClientKilledWhileStopping(t *testing.T) {
	s := begin(t)
	for _, m := range bothKinds() {
		job := cluster.Job{ID: s.name("stopped"), Network: cluster.Flat, Count: 4, Group: on(m)}
		s.start(job)
		must(t, lab.Deregister(job.ID))
		s.killDuring("DEL", m, func() error { return lab.RequireEnded(job.ID) })
	}
	s.requireNothingLater()
}

// TestClientKilledWhileStarting kills clients in the middle of an ADD of a job that is stopped
// before they are back: Nomad has no state of its allocations' tasks, and forgets them.
func TestClientKilledWhileStarting(t *testing.T) {
	s := begin(t)
	for _, m := range bothKinds() {
		job := cluster.Job{ID: s.name("started"), Network: cluster.Flat, Count: 4, Group: on(m)}
		must(t, lab.Submit(job))
		s.killDuring("ADD", m, func() error { return nil })
		must(t, lab.Deregister(job.ID))
	}
	s.requireNothingLater()
}

// requireNothingLater starts the clients that were killed, and waits until nothing of their
// allocations is left.
func (s *scene) requireNothingLater() {
	s.Helper()
	for _, m := range bothKinds() {
		must(s, lab.StartNomad(m))
	}
	must(s, lab.AwaitReady())
	for _, m := range bothKinds() {
		s.requireNothing(m)
	}
}

// killDuring kills the client's Nomad while a CNI call is stopped in its tracks, as soon as
// there is no error. The call goes on then.
func (s *scene) killDuring(verb string, m *cluster.Machine, ready func() error) {
	s.Helper()
	var call int
	must(s, cluster.Await("a "+verb+" on "+m.Name, func() (err error) {
		call, err = stopCall(verb, m)
		return err
	}))
	must(s, cluster.Await("the instant to kill "+m.Name, ready))
	must(s, errors.Join(m.Signal(cluster.Nomad, unix.SIGKILL), unix.Kill(call, unix.SIGCONT)))
}

// stopCall stops a process of a CNI call.
func stopCall(verb string, m *cluster.Machine) (int, error) {
	calls, err := pluginCalls()
	if err != nil {
		return 0, err
	}
	for _, pid := range calls {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !bytes.Contains(environ, []byte("CNI_COMMAND="+verb)) || !m.Has(pid) {
			continue // ended, or another call
		}
		if err := unix.Kill(pid, unix.SIGSTOP); err == nil && isStopped(pid) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("none of the %d CNI calls is a %s on %s", len(calls), verb, m.Name)
}

// isStopped is false of a process that had ended before it could be stopped.
func isStopped(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it has ended
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(state, []byte("T"))
}
