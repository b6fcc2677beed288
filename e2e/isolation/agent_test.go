// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	types "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/stream"
	"github.com/allocnet/allocnet/isolation"
)

// startAgent starts an agent, which ends with the test, and returns its socket.
func (h *host) startAgent() (socket string) {
	h.Helper()
	dir := h.TempDir()
	socket = filepath.Join(dir, "agent", "agent.sock")
	config := filepath.Join(dir, "agent.hcl")
	sandbox.WriteFile(h, config, fmt.Sprintf("conf_dir = %q\nplugin_dirs = [%q]\nstate_dir = %q\nsocket {\n  path = %q\n}\n", h.conf, sandbox.PluginDir(), h.state, socket))
	cmd := exec.Command(binary, "agent", "--config", config)
	cmd.Env = h.environ()
	sandbox.StartDaemon(h, cmd, func() error { return client.New(socket).Ready(context.Background()) })
	return socket
}

// call calls allocnet-cni as Nomad does for an allocation of a job, in the agent if there is a socket, and returns its output.
func (h *host) call(verb, id, job, network, socket string) []byte {
	h.Helper()
	agent := ""
	if socket != "" {
		agent = fmt.Sprintf(`, "agent": {"socket": %q, "mode": "require"}`, socket)
	}
	cmd := exec.Command(bin + "/allocnet-cni")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "multi", "type": "allocnet-cni", "capabilities": {"portMappings": true}, "primary": %q,
		"confDir": %q, "pluginDir": %q, "stateDir": %q%s}`, network, h.conf, sandbox.PluginDir(), h.state, agent))
	cmd.Env = append(h.environ(), "CNI_COMMAND="+verb, "CNI_CONTAINERID="+id, "CNI_IFNAME=eth0", "CNI_PATH="+bin,
		"CNI_NETNS=/run/netns/"+id, "CNI_ARGS=IgnoreUnknown=true;NOMAD_ALLOC_ID="+id+";NOMAD_NAMESPACE=prod;NOMAD_JOB_ID="+job+";NOMAD_GROUP_NAME=g")
	out, err := cmd.Output()
	if err != nil {
		h.Fatalf("%s of %s: %v: %s", verb, id, err, out)
	}
	return out
}

// runJob attaches an allocation of a job by allocnet-cni, until the test ends.
func (h *host) runJob(id, job, network, socket string) place {
	h.Helper()
	path, err := netns.Create(netns.DefaultDir, id)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		h.call("DEL", id, job, network, "")
		if err := netns.Remove(path); err != nil {
			h.Error(err)
		}
	})
	var result types.Result
	if err := json.Unmarshal(h.call("ADD", id, job, network, socket), &result); err != nil {
		h.Fatal(err)
	}
	h.call("CHECK", id, job, network, socket)
	p := place{name: id, netns: path}
	for _, address := range result.IPs {
		p.addresses = append(p.addresses, address.Address.IP.String())
	}
	return h.serve(p)
}

// ways are those from a place to another one.
func ways(from, to place) (all []stream.Way) {
	for _, address := range to.addresses {
		all = append(all, stream.Way{Name: from.name + " to " + address, From: from.netns, To: net.JoinHostPort(address, "80")})
	}
	return all
}

// TestAgent: jobs that allocnet-cni attaches, in the agent and by itself, reach what rules name. The agent has rules hold that
// change, and a level, without an end of flows that are allowed, and repairs what is flushed.
func TestAgent(t *testing.T) {
	h := newHost(t)
	rule := "allow \"web reaches db\" {\n  from {\n    namespace = \"prod\"\n    job       = \"web\"\n  }\n  to {\n    namespace = \"prod\"\n    job       = \"db\"\n  }\n}\n"
	h.rules(rule)
	socket := h.startAgent()
	db, web, other := h.runJob("db-1", "db", "strict", socket), h.runJob("web-1", "web", "strict", ""), h.runJob("other-1", "other", "apart", socket)
	h.require(all(web, db, true), all(db, web, false), all(other, db, false), all(web, other, false))
	var talks []*stream.Talk
	for _, w := range ways(web, db) {
		talks = append(talks, stream.StartTalk(t, w))
	}
	h.rules(strings.Replace(rule, `"web"`, `"*"`, 1))
	h.await("a rule that was changed holds", all(other, db, true))
	h.require(all(web, db, true), all(db, web, false))
	h.rules(strings.Replace(rule, "namespace", "space", 1))
	h.refuse(isolation.DefaultFile+":3", "repair")
	h.require(all(other, db, true)) // what was in force stays
	h.rules(rule)
	h.await("the former rule holds", all(other, db, false))
	began := time.Now()
	sandbox.Run(t, "nft", "flush", "set", "inet", "allocnet-isolation", "members4")
	sandbox.Run(t, "nft", "delete", "table", "bridge", "allocnet-isolation")
	sandbox.Run(t, "nft", "delete", "table", "inet", "allocnet-isolation")
	sandbox.Eventually(t, "the tables are there again", func() bool {
		_, err := exec.Command("nft", "list", "table", "inet", "allocnet-isolation").Output()
		_, errBridge := exec.Command("nft", "list", "table", "bridge", "allocnet-isolation").Output()
		return err == nil && errBridge == nil
	})
	t.Logf("repaired after %s", time.Since(began).Round(time.Millisecond))
	h.require(all(db, web, false), all(other, db, false))
	h.await("what is allowed is reached again", all(web, db, true)) // each may have the other's MAC until it asks again
	for _, talk := range talks {
		stream.RequireKept(t, talk)
	}
}

// await waits until connections can be made, or cannot.
func (h *host) await(what string, probes []probe) {
	h.Helper()
	began := time.Now()
	sandbox.Eventually(h, what, func() bool {
		for _, p := range probes {
			if (reaches(p.from.netns, p.to, denied) == nil) != p.want {
				return false
			}
		}
		return true
	})
	h.Logf("%s after %s", what, time.Since(began).Round(time.Millisecond))
}
