// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/lab"
)

// agentMark is in the environment of the agent and of all that it starts.
const agentMark = "ALLOCNET_TEST_AGENT=" + dir

const agentConfig = `
data_dir   = "` + dataDir + `"
plugin_dir = "` + pluginDir + `"
name       = "%[2]s"
bind_addr  = "0.0.0.0"
log_level  = "DEBUG"
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

// agent is a Nomad server and client in one process.
type agent struct {
	*testing.T
	cmd    *exec.Cmd
	exited chan struct{}
	log    *os.File
}

// newAgent returns an agent that has not been started.
func newAgent(t *testing.T) *agent {
	t.Helper()
	lab.WriteFile(t, dir+"/agent.hcl", fmt.Sprintf(agentConfig, lab.PluginDir(), "first", serverAddress, true, 1))
	log, err := os.Create(filepath.Join(t.ArtifactDir(), "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{T: t, log: log}
	t.Cleanup(func() {
		a.signal(unix.SIGKILL)
		if t.Failed() {
			text, _ := exec.Command("grep", "-E", "WARN|ERROR|allocnet", log.Name()).Output()
			t.Logf("the agent's log, in part:\n%s", text[max(0, len(text)-8000):])
		}
	})
	return a
}

// start starts the agent and waits until it schedules jobs.
func (a *agent) start() {
	a.Helper()
	a.cmd = exec.Command(binary(), "agent", "-config", dir+"/agent.hcl")
	a.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "AWS_") }), agentMark)
	a.cmd.Stdout, a.cmd.Stderr = a.log, a.log
	if err := a.cmd.Start(); err != nil {
		a.Fatal(err)
	}
	a.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // it is signalled
		close(exited)
	}(a.cmd, a.exited)
	a.await("the node is ready", func() bool {
		nodes := a.nodes()
		return len(nodes) > 0 && nodes[0].Status == "ready"
	})
}

// signal ends the agent and waits until it has exited.
func (a *agent) signal(s unix.Signal) {
	if a.cmd == nil {
		return
	}
	_ = a.cmd.Process.Signal(s)
	<-a.exited
	a.cmd = nil
}

// pluginProcesses returns the driver's processes that run in this laboratory.
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

// killPlugin kills the driver's process and waits for another.
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
	a.await("the plugin runs again", func() bool {
		now := pluginProcesses()
		return len(now) > 0 && !slices.Contains(old, now[0])
	})
}

// api reads from the agent's HTTP API.
func (a *agent) api(path string, target any) error {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get("http://127.0.0.1:4646/v1/" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(target)
}

// await waits for what must come about.
func (a *agent) await(what string, done func() bool) {
	a.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			a.Fatalf("waited in vain: %s", what)
		}
	}
}

// nomad runs the command line, which has to succeed.
func (a *agent) nomad(args ...string) string {
	a.Helper()
	out, err := exec.Command(binary(), args...).CombinedOutput()
	if err != nil {
		a.Fatalf("nomad %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// node is what the API tells of one.
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
	if a.api("nodes", &stubs) != nil {
		return nil
	}
	nodes := make([]node, len(stubs))
	for i, stub := range stubs {
		if a.api("node/"+stub.ID, &nodes[i]) != nil {
			return nil
		}
	}
	return nodes
}
