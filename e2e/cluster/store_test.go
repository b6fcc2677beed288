// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestSnapshotRestored restores Nomad's state of a time when blocks that allocations use were
// not claimed: they are claimed again by their hosts.
func TestSnapshotRestored(t *testing.T) {
	s := begin(t)
	_, err := lab.CLI("operator", "snapshot", "save", "/run/before.snap")
	must(t, err)
	job := cluster.Job{ID: s.name("many"), Network: cluster.Flat, Count: 36} // more than a block on each node
	before := s.start(job)
	_, err = lab.CLI("operator", "snapshot", "restore", "/run/before.snap")
	must(t, err)
	must(t, cluster.Await("the blocks are in the store again", func() error { return s.requireBlocks(before) }))
	job.ID, job.Count = s.name("more"), 6 // the old job is not known to Nomad any more
	s.start(job)
	must(t, lab.Stop(job.ID))
}

// requireBlocks is an error unless the store has a block of each allocation's address.
func (s *scene) requireBlocks(list []cluster.Allocation) error {
	out, err := lab.Clients[0].Run("allocnet", "ipam", "show", cluster.Flat)
	if err != nil {
		return err
	}
	for _, a := range list {
		if block, _ := a.Address().Prefix(28); !strings.Contains(out, block.String()) {
			return fmt.Errorf("%s is not in a block:\n%s", a.Address(), out)
		}
	}
	return nil
}

// TestTokenRevoked deletes the token of a client's agent: what runs runs on, held blocks are
// used, and with a new token all is well.
func TestTokenRevoked(t *testing.T) {
	s := begin(t)
	m := lab.Clients[0]
	s.during(func() {
		must(t, lab.RevokeToken(m))
		job := cluster.Job{ID: s.name("revoked"), Network: cluster.Flat, Count: 2, Group: on(m)}
		s.start(job)
		must(t, lab.Stop(job.ID))
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
	if given < 3 || given > 60 { // at most four blocks are held
		t.Errorf("%d addresses were given out without a server, want those of the held blocks", given)
	}
	for _, server := range lab.Servers {
		must(t, server.Signal(cluster.Nomad, unix.SIGCONT))
	}
	_, err = m.Run("allocnet", "detach", "stopped")
	must(t, err)
	must(t, cluster.Await("the servers answer", func() error { return lab.API(http.MethodGet, "nodes", nil, nil) }))
}

// fill attaches until no block has room, and then asks allocnet-ipam itself.
func (s *scene) fill(m *cluster.Machine) (given int) {
	s.Helper()
	for ; given < 100; given++ {
		begun := time.Now()
		out, err := s.assign(m, fmt.Sprintf("full-%d", given), "ADD")
		if err == nil {
			continue
		}
		if took := time.Since(begun); took > 6*time.Second || !strings.Contains(out, `"code": 11`) || !strings.Contains(out, "nomad at http://127.0.0.1:4646") {
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
