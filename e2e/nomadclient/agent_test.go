// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadclient"
	"github.com/allocnet/allocnet/nomad"
)

const agentSocket = "/run/allocnet/agent.sock"

// TestAgent delegates the calls to the agent, which reads network blocks and meta of the job from Nomad. A block that
// selects its network by arguments counts once, and the identity is that of the arguments. A change of
// a block replaces the allocation, and CHECK needs no agent.
func TestAgent(t *testing.T) {
	eachVersion(t, func(h *host) {
		conflist := confDir + "/00-multi.conflist"
		h.write(conflist, strings.Replace(read(h.T, conflist), `"type": "allocnet-cni",`, `"type": "allocnet-cni", "agent": {"socket": "`+agentSocket+`", "mode": "require"},`, 1))
		stop := h.startAgent()
		defer func() { stop() }()
		selecting := group("selecting", args{"networks.names": ""},
			nomadclient.Network{Mode: "cni/storage"}, nomadclient.Network{Mode: "cni/backup", Args: args{"networks.backup": `{"interface":"disk0"}`}})
		selecting.Meta = map[string]string{"allocnet.networks": "mgmt@net5"}
		h.api.describe(selecting)
		first := h.one(selecting)
		found := h.requireNetworks(first, "eth0=web disk0=backup net2=names net3=storage net5=mgmt")
		if want := first.Group.Job; h.config.Version.Has(nomad.Identity) && found.Identity.Job != want {
			h.Errorf("the identity is %+v, want the job %s", found.Identity, want)
		}
		changed := selecting
		changed.Networks = append(selecting.Networks[:1:1], nomadclient.Network{Mode: "cni/vlan"})
		h.api.describe(changed)
		second := h.update(first, changed)
		if second == first {
			h.Error("the update has not replaced the allocation")
		}
		h.requireNetworks(second, "eth0=web net1=names net2=vlan net5=mgmt")
		stop()
		h.restart()
		stop = h.startAgent()
		h.stop(second)
		sandbox.RequireNothing(h.T, "cached job networks", func() string {
			return sandbox.Run(h.T, "find", "/var/lib/allocnet/job-networks", "-type", "f")
		})
	})
}

// startAgent starts an agent that reads from Nomad.
func (h *host) startAgent() (stop func()) {
	h.Helper()
	h.write(dir+"/allocnet.hcl", fmt.Sprintf(`
conf_dir    = %q
plugin_dirs = [%q, %q]
nomad {
  address      = %q
  node_id      = %q
  job_networks = true
}
reconcile {
  interval = "1h"
}
`, confDir, plugins, sandbox.PluginDir(), h.api.URL, node))
	cmd := exec.Command(allocnet, "agent", "--config", dir+"/allocnet.hcl")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	c := client.New(agentSocket)
	sandbox.Eventually(h.T, "the agent is ready", func() bool { return c.Ready(context.Background()) == nil })
	stopped := false
	return func() {
		if stopped {
			return
		}
		stopped = true
		_ = cmd.Process.Signal(unix.SIGTERM)
		if err := cmd.Wait(); err != nil {
			h.Errorf("allocnet agent: %v\n%s", err, log.String())
		}
	}
}

// describe has each allocation that Nomad is asked about be one of the group.
func (s *server) describe(g nomadclient.Group) {
	described := &api.TaskGroup{Name: &g.Name, Meta: g.Meta}
	for _, network := range g.Networks {
		n := &api.NetworkResource{Mode: network.Mode}
		if network.Args != nil {
			n.CNI = &api.CNIConfig{Args: network.Args}
		}
		described.Networks = append(described.Networks, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	region := "global"
	s.allocation = &api.Allocation{Namespace: "default", JobID: g.Job, TaskGroup: g.Name, Job: &api.Job{ID: &g.Job, Region: &region, TaskGroups: []*api.TaskGroup{described}}}
}

// allocationOf returns the answer to a request for an allocation.
func (s *server) allocationOf(r *http.Request) (any, bool) {
	id, asks := strings.CutPrefix(r.URL.Path, "/v1/allocation/")
	if !asks || s.allocation == nil {
		return nil, false
	}
	answer := *s.allocation
	answer.ID, answer.ClientStatus = id, "running"
	return answer, true
}
