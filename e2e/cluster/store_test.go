// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongSnapshotRestored restores Nomad's state of a time when blocks that allocations use were
// not claimed: they are claimed again by their hosts.
func TestLongSnapshotRestored(t *testing.T) {
	s := begin(t)
	s.snapshot("save")
	job := cluster.Job{ID: s.name("many"), Network: cluster.Flat, Count: 36} // more than a block on each node
	var before []netip.Addr
	for _, a := range s.start(job) {
		before = append(before, a.Address())
	}
	s.snapshot("restore")
	must(t, cluster.Await("the blocks are in the store again", func() error { return s.requireBlocks(before) }))
	job.ID, job.Count = s.name("more"), 6 // the old job is not known to Nomad any more
	s.start(job)
	must(t, lab.Jobs.Stop(job.ID))
}

// snapshot saves the test's snapshot of Nomad's state, or restores it. It is repeated, because a leader that changes
// meanwhile has not done it.
func (s *scene) snapshot(verb string) {
	s.Helper()
	path := "/run/" + s.Name() + ".snap"
	must(s, cluster.Await("the snapshot: "+verb, func() error {
		_, err := lab.CLI("operator", "snapshot", verb, path)
		return err
	}))
}

// TestLongSnapshotRestoredWithoutState restores Nomad's state of a time before a client claimed a
// block, of which the client has lost its records: only its namespaces know what is in use.
func TestLongSnapshotRestoredWithoutState(t *testing.T) {
	s := begin(t)
	m := lab.Clients[0]
	s.snapshot("save")
	a := s.attachToNewBlock(m)
	must(t, m.Signal(cluster.Agent, unix.SIGKILL))
	must(t, m.Wipe(stateDirs...))
	s.snapshot("restore")
	must(t, m.StartAgent())
	must(t, cluster.Await("the block is in the store again", func() error { return s.requireBlocks([]netip.Addr{a}) }))
	job := cluster.Job{ID: s.name("more"), Network: cluster.Flat, Count: 3, Group: on(m)}
	for _, other := range s.start(job) {
		if block, _ := a.Prefix(28); block.Contains(other.Address()) {
			t.Errorf("%s was given out, of a block with addresses of unknown allocations", other.Address())
		}
	}
	must(t, lab.Jobs.Stop(job.ID))
	s.powerCycle(m) // what has no record is not removed
}

// attachToNewBlock attaches namespaces until one has an address of a block that the machine has
// claimed meanwhile.
func (s *scene) attachToNewBlock(m *cluster.Machine) (a netip.Addr) {
	s.Helper()
	before := shown(s, m, cluster.Flat)
	for i := range 64 { // at most four blocks of 14 are held
		id := fmt.Sprintf("new-%d", i)
		a = s.attach(m, id) // no block is claimed for 40 s after a restore
		if block, _ := a.Prefix(28); !strings.Contains(before, block.String()) {
			return a
		}
	}
	s.Fatalf("all addresses are of the blocks that were held:\n%s", before)
	return a
}

// attach attaches a namespace, which may have to wait for the store, and returns its IPv4 address.
func (s *scene) attach(m *cluster.Machine, id string) netip.Addr {
	s.Helper()
	must(s, cluster.Await("attach "+id, func() error {
		_, err := m.Run("allocnet", "attach", id, "--primary", cluster.Flat)
		return err
	}))
	out, err := m.Run("ip", "netns", "exec", id, "ip", "-o", "-4", "address", "show", "scope", "global")
	must(s, err)
	prefix, err := netip.ParsePrefix(strings.Fields(out)[3])
	must(s, err)
	return prefix.Addr()
}

// requireBlocks is an error unless the store has a block of each address.
func (s *scene) requireBlocks(list []netip.Addr) error {
	out, err := lab.Clients[0].Run("allocnet", "ipam", "show", cluster.Flat)
	if err != nil {
		return err
	}
	for _, a := range list {
		if block, _ := a.Prefix(28); !strings.Contains(out, block.String()) {
			return fmt.Errorf("%s is not in a block:\n%s", a, out)
		}
	}
	return nil
}

// TestLongTokenRevoked deletes the token of a client's agent: what runs runs on, held blocks are
// used, and with a new token all is well.
func TestLongTokenRevoked(t *testing.T) {
	s := begin(t)
	m := lab.Clients[0]
	s.during(func() {
		must(t, lab.RevokeToken(m))
		job := cluster.Job{ID: s.name("revoked"), Network: cluster.Flat, Count: 2, Group: on(m)}
		s.start(job)
		must(t, lab.Jobs.Stop(job.ID))
		must(t, cluster.Await("it is reported", func() error {
			out, _ := m.Run("allocnet", "doctor") // it has errors
			if !strings.Contains(out, "403") && !strings.Contains(out, "refuse") {
				return fmt.Errorf("doctor says %s", out)
			}
			return nil
		}))
		must(t, lab.GiveToken(m))
	})
}

// TestServersStopped attaches while all servers are stopped: from held blocks as ever, and
// without one the error names the store within 5 s.
func TestServersStopped(t *testing.T) {
	s := begin(t)
	m := lab.Clients[0]
	_, err := m.Run("allocnet", "attach", "stopped", "--primary", cluster.Flat)
	must(t, err)
	for _, server := range lab.Servers {
		must(t, server.Signal(cluster.Nomad, unix.SIGSTOP))
	}
	given := s.fill(m)
	t.Logf("%d addresses were given out", given)
	if given < 3 || given == mostGiven { // a host holds some blocks, and one more soon after each boot
		t.Errorf("%d addresses were given out without a server, want those of the held blocks", given)
	}
	for _, server := range lab.Servers {
		must(t, server.Signal(cluster.Nomad, unix.SIGCONT))
	}
	_, err = m.Run("allocnet", "detach", "stopped")
	must(t, err)
	must(t, cluster.Await("the servers answer", func() error { return lab.API(http.MethodGet, "nodes", nil, nil) }))
}

// mostGiven is more than a host has addresses for.
const mostGiven = 200

// fill attaches until no block has room, and then asks allocnet-ipam itself.
func (s *scene) fill(m *cluster.Machine) (given int) {
	s.Helper()
	for ; given < mostGiven; given++ {
		begun := time.Now()
		out, err := s.assign(m, fmt.Sprintf("full-%d", given), "ADD")
		if err == nil {
			continue
		}
		// The agent may wait for the same store, and this process for the agent's lock: then it says so without the address.
		if took := time.Since(begun); took > 6*time.Second || !strings.Contains(out, `"code": 11`) || !strings.Contains(out, "the store is unavailable: ") {
			s.Errorf("after %s without a block: %s", took, out)
		}
		break
	}
	for i := range given {
		_, err := s.assign(m, fmt.Sprintf("full-%d", i), "DEL")
		must(s, err)
	}
	return given
}

// assign calls allocnet-ipam as macvlan does.
func (s *scene) assign(m *cluster.Machine, id, verb string) (string, error) {
	s.Helper()
	data, err := os.ReadFile(m.Path("/opt/cni/config/50-flat.conflist"))
	must(s, err)
	var list struct{ Plugins []map[string]any }
	must(s, json.Unmarshal(data, &list))
	list.Plugins[0]["name"], list.Plugins[0]["cniVersion"] = "flat", "1.0.0"
	config, err := json.Marshal(list.Plugins[0])
	must(s, err)
	must(s, m.Write("/run/flat.json", string(config)))
	return m.Run("sh", "-c", "CNI_COMMAND="+verb+" CNI_CONTAINERID="+id+
		" CNI_NETNS=/run/netns/none CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin allocnet-ipam </run/flat.json")
}
