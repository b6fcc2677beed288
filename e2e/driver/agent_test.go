// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

const agentConfig = `
data_dir   = "` + dataDir + `"
plugin_dir = "` + pluginDir + `"
name       = "%[2]s"
bind_addr  = "0.0.0.0"
log_level  = "DEBUG"

disable_update_check = true # the sandbox has no other network

telemetry {
  collection_interval = "60s" # of what no test reads
}
advertise {
  http = "%[3]s"
  rpc  = "%[3]s"
  serf = "%[3]s"
}
server {
  enabled          = %[4]t
  bootstrap_expect = %[5]d
}
client {
  enabled           = true
  servers           = ["` + serverAddress + `:4647"]
  network_interface = "lo"
  cpu_total_compute = 100000
  memory_total_mb   = 100000
  cni_path          = "%[1]s"
  cni_config_dir    = "` + confDir + `"
  chroot_env {
    "` + busybox + `" = "` + busybox + `"
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
plugin "allocnet" {
  args = ["plugin"]
  config {
    conf_dir    = "` + confDir + `"
    plugin_dirs = ["%[1]s"]
  }
}
plugin "docker" {
  config {
    infra_image = "pause:1"
  }
}
`

// agent is a Nomad agent with the driver.
type agent struct{ *nomadagent.Agent }

// newAgent returns an agent that has not been started.
func newAgent(t *testing.T) *agent {
	t.Helper()
	config := fmt.Sprintf(agentConfig, sandbox.PluginDir(), "first", serverAddress, true, 1)
	return &agent{nomadagent.NewAgent(t, dir, config, allocnet, "WARN|ERROR|allocnet")}
}

// pluginProcesses returns the driver's processes that run in this sandbox.
func pluginProcesses() []int {
	own, _ := os.Readlink("/proc/self/ns/mnt")
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var pids []int
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err != nil || string(line) != allocnet+"\x00plugin\x00" {
			continue
		}
		if ns, _ := os.Readlink(filepath.Join(filepath.Dir(path), "ns/mnt")); ns != own {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/cmdline", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killPlugin kills the driver's process and waits for the next one.
func (a *agent) killPlugin() {
	a.Helper()
	old := pluginProcesses()
	if len(old) == 0 {
		a.Fatal("the plugin does not run")
	}
	for _, pid := range old {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			a.Fatal(err)
		}
	}
	a.Await("the plugin runs again", func() bool {
		now := pluginProcesses()
		return len(now) > 0 && !slices.Contains(old, now[0])
	})
}

// node is a node in Nomad's API.
type node struct {
	ID, Name, Status string
	Attributes       map[string]string
	Drivers          map[string]struct {
		Healthy           bool
		HealthDescription string
	}
}

// nodes returns all nodes, with their attributes.
func (a *agent) nodes() []node {
	var stubs []struct{ ID string }
	if a.API("nodes", &stubs) != nil {
		return nil
	}
	nodes := make([]node, len(stubs))
	for i, stub := range stubs {
		if a.API("node/"+stub.ID, &nodes[i]) != nil {
			return nil
		}
	}
	return nodes
}
