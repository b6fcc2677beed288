// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// agentConfig is that of the Nomad agent, with the plugins of a directory.
func agentConfig(pluginDir string) string {
	return nomadagent.Config{
		DataDir: dataDir, More: `log_level = "TRACE"`,
		Client: `
  cpu_total_compute = 100000
  memory_total_mb   = 100000
  cni_path          = "` + plugins + ":" + pluginDir + `"
  cni_config_dir    = "` + confDir + `"
  chroot_env {
    "` + web + `" = "/bin/web"
    "/etc/passwd" = "/etc/passwd" # up to 1.9 the driver exec looks up its user there
  }`}.String()
}

// agent is a Nomad agent with allocnet-cni.
type agent struct {
	*nomadagent.Agent
	// checks is whether the client calls CHECK when it restarts.
	checks bool
	// arguments is whether jobs select networks by CNI arguments, which the plugin reads
	// alone. Otherwise daemon reads their meta.
	arguments bool
	daemon    *daemon
}

// newAgent returns an agent that has not been started.
func newAgent(t *testing.T) *agent {
	t.Helper()
	return &agent{Agent: nomadagent.NewAgent(t, dir, agentConfig(sandbox.PluginDir()), allocnet, "WARN|ERROR|^panic|^goroutine")}
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
