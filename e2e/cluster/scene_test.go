// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// scene is the cluster in one test, watched for duplicates.
type scene struct {
	*testing.T
	watchers []*cluster.Watcher
	jobs     int
	// steady is the job whose allocations run during a fault.
	steady cluster.Job
}

// begin returns the cluster with all its parts running. When the test ends, no address may
// have been a duplicate, and after all is stopped nothing may be left. After a failure the
// next test has a new cluster.
func begin(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t}
	s.watchers = []*cluster.Watcher{s.watch(cluster.FlatSubnet)}
	t.Cleanup(s.renew)
	t.Cleanup(s.end)
	s.heal()
	return s
}

// renew replaces the cluster after a failure.
func (s *scene) renew() {
	if !s.Failed() {
		return
	}
	s.keepLogs()
	must(s, lab.Renew())
}

// heal starts what does not run.
func (s *scene) heal() {
	s.Helper()
	for _, m := range lab.Servers {
		must(s, repair(m, lab.StartServer, func() error {
			return unless(m.Runs(cluster.Nomad), func() error { return lab.RestartServer(m) })
		}))
	}
	for _, m := range lab.Clients {
		must(s, repair(m, lab.StartClient, func() error {
			return errors.Join(unless(m.Runs(cluster.Nomad), func() error { return lab.StartNomad(m) }), unless(m.Runs(cluster.Agent), m.StartAgent))
		}))
	}
	must(s, lab.AwaitReady())
}

func repair(m *cluster.Machine, start func(*cluster.Machine) error, daemons func() error) error {
	if !m.IsOn() {
		return start(m)
	}
	if err := m.Plug(); err != nil {
		return err
	}
	return daemons()
}

func unless(so bool, do func() error) error {
	if so {
		return nil
	}
	return do()
}

func (s *scene) end() {
	if s.Failed() {
		return // what is left then is a consequence
	}
	s.heal()
	s.stopAll()
	for _, m := range lab.Clients {
		s.requireNothing(m)
	}
	for _, m := range lab.Clients {
		must(s, cluster.Await("the pools of "+m.Name+" are in order", func() error {
			_, err := m.Run("allocnet", "ipam", "check") // blocks of lost instances are warnings until they are adopted
			return err
		}))
	}
	for _, w := range s.watchers {
		for _, line := range w.Duplicates() {
			s.Error(line)
		}
	}
}

// keepLogs copies the logs of all machines to the test's artifacts, and tells the last that
// Nomad's clients say of allocations: not all runs keep the artifacts.
func (s *scene) keepLogs() {
	lab.KeepLogs(s)
	for _, m := range lab.Clients {
		out, _ := exec.Command("sh", "-c", "grep -E 'client: |client.rpc: ' "+m.Path(cluster.Nomad+".log")+" | tail -n 12").Output() // it may have said nothing
		s.Logf("%s: %s\n%s", m.Name, cluster.Nomad, out)
	}
}

func (s *scene) stopAll() {
	s.Helper()
	var jobs []struct{ ID, Status string }
	must(s, cluster.Await("the jobs are listed", func() error { return lab.API(http.MethodGet, "jobs", nil, &jobs) }))
	var ids []string
	for _, job := range jobs {
		if job.Status != "dead" {
			ids = append(ids, job.ID)
		}
	}
	must(s, lab.Jobs.Stop(ids...))
}

// requireNothing waits until a client has no namespace, and no lease of its pools.
func (s *scene) requireNothing(m *cluster.Machine) {
	s.Helper()
	must(s, cluster.Await("nothing is left on "+m.Name, func() error {
		for _, name := range nomadagent.Busy(m.Path(cluster.Nomad + ".log")) {
			_, _ = m.Run("ip", "netns", "delete", name) // or it is gone
		}
		namespaces, _ := filepath.Glob(m.Path("/run/netns/*")) // the patterns are right
		leases, _ := filepath.Glob(m.Path("/var/lib/cni/networks/*/10.9*"))
		if left := append(namespaces, leases...); len(left) > 0 {
			return fmt.Errorf("left are %s", left)
		}
		return nil
	}))
}

// start runs a job on a network and returns its allocations, which have different addresses.
func (s *scene) start(job cluster.Job) []cluster.Allocation {
	s.Helper()
	found, err := s.try(job)
	must(s, err)
	return found
}

func (s *scene) try(job cluster.Job) ([]cluster.Allocation, error) {
	if err := lab.Jobs.Submit(job); err != nil {
		return nil, err
	}
	found, err := lab.Jobs.AwaitRunning(job.ID, job.Count)
	if err != nil {
		return nil, err
	}
	return found, distinct(found)
}

func distinct(list []cluster.Allocation) error {
	owner := map[netip.Addr]cluster.Allocation{}
	for _, a := range list {
		if other, found := owner[a.Address()]; found {
			return fmt.Errorf("%s is the address of two allocations: %s", a.Address(), cluster.Explain([]cluster.Allocation{a, other}))
		}
		owner[a.Address()] = a
	}
	return nil
}

// shown returns what a machine shows of a pool. On a busy machine servers elect a leader at any time, and have no answer
// until then.
func shown(t testing.TB, m *cluster.Machine, pool string) (out string) {
	t.Helper()
	must(t, cluster.Await(m.Name+" shows the pool "+pool, func() (err error) {
		out, err = m.Run("allocnet", "ipam", "show", pool)
		return err
	}))
	return out
}

// name returns the name of a job that no other test has.
func (s *scene) name(prefix string) string {
	s.jobs++
	return strings.ToLower(fmt.Sprintf("%s-%s-%d", s.Name(), prefix, s.jobs))
}

// during starts and stops jobs while a fault is made, beside one whose allocations Nomad
// may move.
func (s *scene) during(fault func()) {
	s.Helper()
	s.steady = cluster.Job{ID: s.name("steady"), Network: cluster.Flat, Count: 6}
	must(s, cluster.Await("the watcher sees the addresses", s.answering(s.start(s.steady))))
	s.beside(fault)
	list, err := lab.Jobs.AwaitRunning(s.steady.ID, s.steady.Count)
	must(s, errors.Join(err, distinct(list)))
}

// beside starts and stops jobs while a fault is made, and has ended when it returns, even by
// a failure: no job of one test is started in the next one.
func (s *scene) beside(fault func()) {
	s.Helper()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { stopped <- s.churn(stop) }()
	defer func() {
		close(stop)
		if err := <-stopped; err != nil {
			s.Error(err)
		}
	}()
	fault()
}

// answering is an error unless the watcher sees the addresses of allocations.
func (s *scene) answering(list []cluster.Allocation) func() error {
	return func() error {
		seen := s.watchers[0].Answering()
		for _, a := range list {
			if !seen[a.Address()] {
				return fmt.Errorf("%s does not answer", a.Address())
			}
		}
		return nil
	}
}

// churn starts and stops jobs until it is told to stop. Each of them has to run.
func (s *scene) churn(stop chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		id := strings.ToLower(fmt.Sprintf("%s-churn-%d", s.Name(), i))
		if _, err := s.try(cluster.Job{ID: id, Network: cluster.Flat, Count: 4}); err != nil {
			return err
		}
		if err := lab.Jobs.Stop(id); err != nil {
			return err
		}
	}
}

// pause waits for a random time below a limit.
func pause(limit time.Duration) { time.Sleep(rand.N(limit)) }

// restart kills a daemon at a random instant, and starts it again after another while.
func (s *scene) restart(m *cluster.Machine, daemon string, start func() error) {
	s.Helper()
	pause(1500 * time.Millisecond)
	must(s, m.Signal(daemon, unix.SIGKILL))
	pause(time.Second)
	must(s, start())
}
