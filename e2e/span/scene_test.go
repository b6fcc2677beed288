// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// goal is how long traffic should be interrupted at most. It is reported, and no test fails for it: it is missed on a
// machine with other load.
const goal = 3 * time.Second

// judge says whether traffic was back soon enough.
func judge(gap time.Duration) string {
	if gap > goal {
		return "MORE THAN THE GOAL OF " + goal.String()
	}
	return "within the goal of " + goal.String()
}

// scene is the cluster in one test: packets are sent between its clients.
type scene struct {
	testing.TB
	senders []*sender
	// controls send between the clients themselves, without a network of allocnet: what they lose, the machine lost.
	controls []*sender
	peers    []peer
}

// take returns the cluster with all its parts running.
func take(t testing.TB) *scene {
	t.Helper()
	s := &scene{TB: t}
	t.Cleanup(s.keepLogs)
	s.heal()
	return s
}

// begin is take with packets that flow from the first client to both others, and from the second to
// the third.
func begin(t testing.TB) *scene {
	t.Helper()
	s := take(t)
	s.runJob()
	c1, c2, c3 := s.on(0), s.on(1), s.on(2)
	s.senders = []*sender{s.send(c1, c2), s.send(c1, c3), s.send(c2, c3)}
	s.controls = []*sender{s.control(0, 1), s.control(0, 2), s.control(1, 2)}
	s.flowing()
	return s
}

// heal starts what a test that has failed has left stopped.
func (s *scene) heal() {
	s.Helper()
	for _, m := range append(lab.Servers, lab.Clients...) {
		start := lab.RestartServer
		if slices.Contains(lab.Clients, m) {
			start = lab.StartNomad
			if !m.IsOn() {
				must(s, lab.BootClient(m))
				must(s, writeNetworks(m))
			}
			if !m.Runs(cluster.Agent) {
				must(s, m.StartAgent())
			}
		}
		if !m.Runs(cluster.Nomad) {
			must(s, start(m))
		}
	}
	must(s, lab.AwaitReady())
}

// on returns an allocation of a client.
func (s *scene) on(client int) peer { return on(s.peers, lab.Clients[client]) }

// keepLogs copies the logs of all machines to the artifacts of a test that has failed, and says how the
// allocations of the job are.
func (s *scene) keepLogs() {
	if !s.Failed() {
		return
	}
	list, err := lab.Jobs.Allocations(job.ID)
	s.Logf("the allocations of the job %s (error: %v): %s", job.ID, err, cluster.Explain(list))
	lab.KeepLogs(s)
}

// flowing waits until all flows flow.
func (s *scene) flowing() {
	s.Helper()
	must(s, cluster.Await("all flows flow", func() error {
		all := s.each("", s.senders)
		dead := slices.DeleteFunc(slices.Clone(all), func(f state) bool { return f.Flows })
		if len(dead) > 0 {
			return fmt.Errorf("%d of %d do not: %+v", len(dead), len(all), dead)
		}
		return nil
	}))
}

// during makes a fault, waits until all flows flow again, and returns the flow with the longest
// gap, with the sum of what was sent and lost.
func (s *scene) during(what string, fault func()) (worst state) {
	s.Helper()
	s.flowing()
	s.each("reset", slices.Concat(s.senders, s.controls))
	fault()
	s.counted()
	s.flowing()
	worst = sum(s.each("", s.senders))
	s.Logf("%s: %d of %d packets lost, longest gap %d ms (%s), %s", what, worst.Lost, worst.Sent, worst.GapMS, worst.Flow, judge(time.Duration(worst.GapMS)*time.Millisecond))
	return worst
}

// sum returns the flow with the longest gap, with what all have sent and lost.
func sum(all []state) (worst state) {
	lost, sent := 0, 0
	for _, f := range all {
		if lost, sent = lost+f.Lost, sent+f.Sent; f.GapMS >= worst.GapMS {
			worst = f
		}
	}
	worst.Lost, worst.Sent = lost, sent
	return worst
}

// each asks senders for the states of their flows.
func (s *scene) each(line string, senders []*sender) (all []state) {
	s.Helper()
	for _, sender := range senders {
		states, err := sender.ask(line)
		must(s, err)
		all = append(all, states...)
	}
	return all
}

// counted waits until all packets that were sent up to now count as lost or answered.
func (s *scene) counted() {
	s.Helper()
	all := slices.Concat(s.senders, s.controls)
	before := s.each("", all)
	must(s, cluster.Await("all packets are counted", func() error {
		for i, f := range s.each("", all) {
			if f.Sent < before[i].Sent+before[i].Recent {
				return fmt.Errorf("%+v, before %+v", f, before[i])
			}
		}
		return nil
	}))
}

// undisturbed makes a fault that must not lose a packet. On a machine with other load the kernel drops packets of
// its own: then the controls lose some, too.
func (s *scene) undisturbed(what string, fault func()) {
	s.Helper()
	worst, control := s.during(what, fault), sum(s.each("", s.controls))
	switch {
	case worst.Lost > 0 && control.Lost > 0:
		s.Logf("%s: the machine lost packets: %d of %d between the hosts themselves", what, control.Lost, control.Sent)
	case worst.Lost > 0:
		s.explainLoss()
		s.Errorf("%s: %d packets were lost, want none: between the hosts themselves, none of %d was", what, worst.Lost, control.Sent)
	}
}

// explainLoss says which flows have lost packets, whether the programs that answer were too slow for theirs, and what
// the agents have changed.
func (s *scene) explainLoss() {
	s.Helper()
	for _, f := range s.each("", s.senders) {
		if f.Lost > 0 {
			s.Logf("flow %+v", f)
		}
	}
	for _, p := range s.peers {
		counts, _ := p.command("grep", "^Udp:", "/proc/net/snmp").CombinedOutput() // what it prints is logged
		s.Logf("%s on %s: %s", p.ID, p.machine.Name, counts)
	}
	for _, m := range lab.Clients {
		changes, _ := exec.Command("sh", "-c", "grep 'changed routes\\|repair\\|restored\\|unrouted' "+m.Path(cluster.Agent+".log")+" | tail -n 8").CombinedOutput() // the same
		s.Logf("the agent of %s: %s", m.Name, changes)
	}
}

// run runs a command on a client.
func (s *scene) run(m *cluster.Machine, command string) string {
	s.Helper()
	out, err := m.Run("sh", "-ec", command)
	must(s, err)
	return out
}
