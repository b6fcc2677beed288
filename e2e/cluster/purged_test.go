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

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongPurged has Nomad forget a node that lives: by garbage collection while it is unplugged, and by a
// purge. Its blocks stay its own, though another host reclaims at once what is gone, and it gives out
// their addresses.
func TestLongPurged(t *testing.T) {
	s := begin(t)
	m, other := lab.Clients[0], lab.Clients[1]
	s.setGrace(other, "1s")
	t.Cleanup(func() { s.setGrace(other, "1h") })
	s.during(func() {
		must(t, m.Unplug())
		must(t, cluster.Await("the node is down", func() error { return lab.RequireStatus(m, "down") }))
		_, err := lab.Jobs.AwaitRunning(s.steady.ID, s.steady.Count)
		must(t, err)
		s.forget(m, other, func() error {
			_, err := lab.CLI("system", "gc")
			return err
		})
		must(t, m.Plug())
		s.returns(m)
		s.forget(m, other, func() error {
			nodes, err := lab.Nodes(m)
			for _, node := range nodes {
				err = lab.API(http.MethodPut, "node/"+node.ID+"/purge", nil, nil)
			}
			return err
		})
		s.returns(m)
	})
}

// setGrace has a client reclaim after another time.
func (s *scene) setGrace(m *cluster.Machine, grace string) {
	s.Helper()
	path := "/etc/allocnet.d/agent.hcl"
	must(s, lab.Configure(m, ""))
	config, err := os.ReadFile(m.Path(path))
	must(s, err)
	must(s, m.Write(path, strings.Replace(string(config), "ipam {", "ipam {\n  grace = \""+grace+"\"", 1)))
	must(s, m.Signal(cluster.Agent, unix.SIGHUP))
}

// forget has Nomad forget the node of a client, for so long that another one has asked whether it is gone
// many times: the client has the blocks of before, and attaches a namespace.
func (s *scene) forget(m, other *cluster.Machine, forget func() error) {
	s.Helper()
	before, err := blocksOf(m, other)
	must(s, err)
	must(s, cluster.Await("Nomad does not know the node", func() error {
		if err := forget(); err != nil {
			return err
		}
		if nodes, err := lab.Nodes(m); err != nil || len(nodes) > 0 {
			return fmt.Errorf("the nodes of %s are %v, %w", m.Name, nodes, err)
		}
		return nil
	}))
	s.attach(m, "forgotten")
	for range 2 { // a client writes its variable every 40 s: others are reclaimed each second meanwhile
		index := noted(other, lab.Clients[2])
		must(s, cluster.Await(other.Name+" has asked for all again", func() error {
			if noted(other, m) == 0 || noted(other, lab.Clients[2]) == index {
				return fmt.Errorf("it has noted %d of %s, and %d of %s", noted(other, m), m.Name, index, lab.Clients[2].Name)
			}
			return nil
		}))
	}
	_, err = m.Run("allocnet", "detach", "forgotten")
	must(s, err)
	after, err := blocksOf(m, other)
	must(s, err)
	if len(before) == 0 {
		s.Errorf("%s has no block", m.Name)
	}
	for block := range before {
		if !after[block] {
			s.Errorf("%s had the block %s, which was reclaimed: it has %v", m.Name, block, after)
		}
	}
}

// returns restarts Nomad on a client that Nomad has forgotten.
func (s *scene) returns(m *cluster.Machine) {
	s.Helper()
	s.restart(m, cluster.Nomad, func() error { return lab.StartNomad(m) })
	must(s, lab.AwaitReady())
}

// blocksOf returns the blocks that a client has, as another one sees it.
func blocksOf(m, other *cluster.Machine) (map[string]bool, error) {
	out, err := other.Run("allocnet", "ipam", "show", cluster.Flat, "--json")
	if err != nil {
		return nil, err
	}
	var pools []struct {
		Blocks []struct {
			Block string
			Owner struct{ Node string }
		}
	}
	err = json.Unmarshal([]byte(out), &pools)
	blocks := map[string]bool{}
	for _, pool := range pools {
		for _, b := range pool.Blocks {
			if b.Owner.Node == m.Name {
				blocks[b.Block] = true
			}
		}
	}
	return blocks, err
}

// noted returns the index at which a client has last seen the variable of another one that it may reclaim
// from. 0: it has not.
func noted(by, m *cluster.Machine) uint64 {
	instance, err := os.ReadFile(m.Path("/var/lib/allocnet/ipam/instance"))
	data, errView := os.ReadFile(by.Path("/var/lib/allocnet/ipam/pools/" + cluster.Flat + "/view.json"))
	var view struct {
		Silent map[string]struct{ Index uint64 }
	}
	if err != nil || errView != nil || json.Unmarshal(data, &view) != nil {
		return 0
	}
	return view.Silent["allocnet/ipam/1/nodes/"+strings.Fields(string(instance))[0]].Index
}
