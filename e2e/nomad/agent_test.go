// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/lab"
)

// agentMark is in the environment of the agent and of all that it starts, and
// of nothing else on the machine.
func agentMark() string { return fmt.Sprintf("ALLOCNET_TEST_AGENT=%d.", os.Getpid()) }

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
	lab.WriteFile(t, dir+"/agent.hcl", fmt.Sprintf(agentConfig, lab.PluginDir()))
	log, err := os.Create(dir + "/agent.log")
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{T: t, log: log}
	t.Cleanup(func() {
		a.signal(unix.SIGKILL)
		if t.Failed() {
			text, _ := exec.Command("grep", "-E", "WARN|ERROR|^panic|^goroutine", "-A3", log.Name()).Output()
			t.Logf("the agent's log, in part:\n%s", text[max(0, len(text)-10000):])
		}
	})
	return a
}

// start starts the agent and waits until it schedules jobs.
func (a *agent) start() {
	a.Helper()
	a.cmd = exec.Command(binary(), "agent", "-config", dir+"/agent.hcl")
	a.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "AWS_") }), agentMark())
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
		var nodes []struct {
			Status                string
			SchedulingEligibility string
		}
		var leader string
		return a.api("nodes", &nodes) == nil && len(nodes) == 1 && nodes[0].Status == "ready" && a.api("status/leader", &leader) == nil && leader != ""
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
	for deadline := time.Now().Add(5 * time.Minute); !done(); time.Sleep(200 * time.Millisecond) {
		select {
		case <-a.exited:
			if a.cmd != nil {
				a.Fatalf("the agent has ended by itself: %s", a.cmd.ProcessState)
			}
		default:
		}
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

// attribute returns a fingerprinted attribute of the node.
func (a *agent) attribute(name string) string {
	a.Helper()
	var nodes []struct{ ID string }
	var node struct{ Attributes map[string]string }
	if err := a.api("nodes", &nodes); err != nil {
		a.Fatal(err)
	}
	if err := a.api("node/"+nodes[0].ID, &node); err != nil {
		a.Fatal(err)
	}
	return node.Attributes[name]
}
