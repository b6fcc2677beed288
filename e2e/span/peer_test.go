// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// peer is an allocation that answers on its networks.
type peer struct {
	ID        string
	machine   *cluster.Machine
	addresses map[string][]netip.Addr
}

// job has an allocation on each network, three of them on each client.
var job = cluster.Job{
	ID: "all", Network: networks[0], Count: 9, Command: []string{"traffic", "serve"},
	Networks: networks[1:],
	Group:    "spread {\n attribute = \"${node.unique.name}\"\n}",
}

// runJob runs the job, unless it runs on all clients, and finds its allocations in the order of clients.
// One that a test that has failed has left on some clients begins anew: Nomad moves none of its allocations.
func (s *scene) runJob() {
	s.Helper()
	list, err := runningJob()
	if err != nil {
		must(s, lab.Jobs.Stop(job.ID))
		must(s, lab.Jobs.Submit(job))
		must(s, cluster.Await("the job "+job.ID+" runs on all clients", func() (err error) {
			list, err = runningJob()
			return err
		}))
	}
	s.peers = nil
	for _, a := range list {
		s.peers = append(s.peers, s.examine(a))
	}
	slices.SortFunc(s.peers, func(a, b peer) int { return strings.Compare(a.machine.Name, b.machine.Name) })
}

// runningJob returns the allocations of the job. It is an error unless all run, and each client has some.
func runningJob() ([]cluster.Allocation, error) {
	list, err := lab.Jobs.Running(job.ID, job.Count)
	if err != nil {
		return nil, err
	}
	for _, m := range lab.Clients {
		if !slices.ContainsFunc(list, func(a cluster.Allocation) bool { return a.NodeName == m.Name }) {
			return nil, fmt.Errorf("none runs on %s: %s", m.Name, cluster.Explain(list))
		}
	}
	return list, nil
}

// examine asks the machine of an allocation for its addresses.
func (s *scene) examine(a cluster.Allocation) peer {
	s.Helper()
	i := slices.IndexFunc(lab.Clients, func(m *cluster.Machine) bool { return m.Name == a.NodeName })
	if i < 0 {
		s.Fatalf("allocation %s is on %q, want a client", a.ID, a.NodeName)
	}
	p := peer{ID: a.ID, machine: lab.Clients[i], addresses: map[string][]netip.Addr{}}
	out, err := p.machine.Run("allocnet", "status", "--json", a.ID)
	must(s, err)
	var known hook.Allocation
	must(s, json.Unmarshal([]byte(out), &known))
	for _, attachment := range known.Attachments {
		for _, address := range attachment.Addresses {
			p.addresses[attachment.Network] = append(p.addresses[attachment.Network], address.Addr())
		}
	}
	return p
}

// command is one in the network namespace of the allocation.
func (p peer) command(words ...string) *exec.Cmd {
	return p.machine.Command(append([]string{"nsenter", "--net=/run/netns/" + p.ID}, words...)...)
}

// on returns the first of the peers that is on a machine.
func on(all []peer, m *cluster.Machine) peer {
	return all[slices.IndexFunc(all, func(p peer) bool { return p.machine == m })]
}
