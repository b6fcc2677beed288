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

// TestClientKilledWhileStopping kills a client in the middle of the first DEL of a job whose
// allocations have all ended. Nomad 1.11.3 restores them as terminal, and then neither detaches
// them nor removes their namespaces: the agent does. The plugins of c1 do their work in process,
// those of c3 are programs.
func TestClientKilledWhileStopping(t *testing.T) {
	for _, m := range []*cluster.Machine{lab.Clients[0], lab.Clients[2]} {
		t.Run(m.Name, func(t *testing.T) {
			s := begin(t)
			job := cluster.Job{ID: s.name("stopped"), Network: cluster.Flat, Count: 4, Group: on(m)}
			s.start(job)
			must(t, lab.Deregister(job.ID))
			s.killDuring("DEL", m, func() error { return lab.RequireEnded(job.ID) })
			must(t, lab.StartNomad(m))
			must(t, lab.AwaitReady())
			s.requireNothing(m)
		})
	}
}

// TestClientKilledWhileStarting kills a client in the middle of an ADD of a job that is stopped
// before the client is back: Nomad has no state of its allocations' tasks, and forgets them.
func TestClientKilledWhileStarting(t *testing.T) {
	for _, m := range []*cluster.Machine{lab.Clients[0], lab.Clients[2]} {
		t.Run(m.Name, func(t *testing.T) {
			s := begin(t)
			job := cluster.Job{ID: s.name("started"), Network: cluster.Flat, Count: 4, Group: on(m)}
			must(t, lab.Submit(job))
			s.killDuring("ADD", m, func() error { return nil })
			must(t, lab.Deregister(job.ID))
			must(t, lab.StartNomad(m))
			must(t, lab.AwaitReady())
			s.requireNothing(m)
		})
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
		if err := unix.Kill(pid, unix.SIGSTOP); err == nil {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("none of the %d CNI calls is a %s on %s", len(calls), verb, m.Name)
}
