// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"fmt"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

const agentConfig = `
data_dir  = "` + dataDir + `"
bind_addr = "127.0.0.1"
log_level = "TRACE"
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled           = true
  servers           = ["127.0.0.1:4647"]
  network_interface = "lo"
  cpu_total_compute = 100000
  memory_total_mb   = 100000
  cni_path          = "` + plugins + `:%s"
  cni_config_dir    = "` + confDir + `"
  chroot_env {
    "` + web + `" = "/bin/web"
    "/etc/passwd" = "/etc/passwd" # up to 1.9 the driver exec looks up its user there
  }
  options = {
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean"
  }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
`

// agent is a Nomad agent with allocnet-cni.
type agent struct {
	*nomadagent.Agent
	// checks is whether the client calls CHECK when it restarts.
	checks bool
}

// newAgent returns an agent that has not been started.
func newAgent(t *testing.T) *agent {
	t.Helper()
	config := fmt.Sprintf(agentConfig, sandbox.PluginDir())
	return &agent{Agent: nomadagent.NewAgent(t, dir, config, allocnet, "WARN|ERROR|^panic|^goroutine")}
}

// attribute returns a fingerprinted attribute of the node.
func (a *agent) attribute(name string) string {
	a.Helper()
	var nodes []struct{ ID string }
	var node struct{ Attributes map[string]string }
	if err := a.API("nodes", &nodes); err != nil {
		a.Fatal(err)
	}
	if err := a.API("node/"+nodes[0].ID, &node); err != nil {
		a.Fatal(err)
	}
	return node.Attributes[name]
}
