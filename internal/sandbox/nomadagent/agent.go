// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package nomadagent runs a real Nomad agent in a sandbox.
package nomadagent

import (
	"cmp"
	"crypto/tls"
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

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// Binary is the agent that `make nomad` builds, or the other version of it that `make
// test-nomad` names in the environment.
func Binary() string {
	return cmp.Or(os.Getenv("ALLOCNET_TEST_NOMAD"), filepath.Join(sandbox.Root(), "build", "nomad", "nomad"))
}

// Agent is a Nomad server and client in one process. Its T is the test that it
// serves now.
type Agent struct {
	*testing.T
	dir, allocnet string
	// TLS is the client's, of an agent whose configuration has TLS for HTTP.
	TLS *tls.Config
	// Address is that of its configuration.
	Address string
	cmd     *exec.Cmd
	exited  chan struct{}
	log     *os.File
}

// NewAgent returns an agent that has not been started. Its configuration becomes
// dir/agent.hcl and has data_dir = dir/data; allocnet is the command line that
// tells of its allocations. The lines of the log that matches finds are shown
// when the test fails.
func NewAgent(t *testing.T, dir, config, allocnet, matches string) *Agent {
	t.Helper()
	sandbox.WriteFile(t, dir+"/agent.hcl", config)
	log, err := os.Create(filepath.Join(t.ArtifactDir(), "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{T: t, dir: dir, allocnet: allocnet, log: log}
	t.Cleanup(func() {
		a.Signal(unix.SIGKILL)
		if t.Failed() {
			text, _ := exec.Command("grep", "-E", matches, "-A3", log.Name()).Output()
			t.Logf("the agent's log, in part:\n%s", text[max(0, len(text)-10000):])
		}
	})
	return a
}

// LogPath is the path of what the agent logs.
func (a *Agent) LogPath() string { return a.log.Name() }

// Start starts the agent and waits until it schedules jobs.
func (a *Agent) Start() {
	a.Helper()
	a.cmd = exec.Command(Binary(), "agent", "-config", a.dir+"/agent.hcl")
	a.cmd.Env = Environ()
	a.cmd.Stdout, a.cmd.Stderr = a.log, a.log
	if err := a.cmd.Start(); err != nil {
		a.Fatal(err)
	}
	a.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // it is signalled
		close(exited)
	}(a.cmd, a.exited)
	a.Await("the node is ready", func() bool {
		var nodes []struct{ Status string }
		var leader string
		return a.API("nodes", &nodes) == nil && len(nodes) > 0 && nodes[0].Status == "ready" && a.API("status/leader", &leader) == nil && leader != ""
	})
}

// Environ is the environment of an agent: without what would make it look for a
// cloud, with little garbage collection, and with the mark by which Tasks knows what it starts.
func Environ() []string {
	return append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "AWS_") }), "GOGC=400", mark())
}

// Signal ends the agent and waits until it has exited.
func (a *Agent) Signal(s unix.Signal) {
	if a.cmd == nil {
		return
	}
	_ = a.cmd.Process.Signal(s)
	sandbox.Eventually(a, "the agent ends", func() bool {
		select {
		case <-a.exited:
			return true
		default:
			return false
		}
	})
	a.cmd = nil
}

// Pause stops the process where it is, as a machine that hangs does, until resume is called.
func (a *Agent) Pause() (resume func()) {
	a.Helper()
	if err := sandbox.Stop(a.cmd.Process.Pid); err != nil {
		a.Fatal(err)
	}
	return func() { _ = a.cmd.Process.Signal(unix.SIGCONT) }
}

// API reads from the agent's HTTP API.
func (a *Agent) API(path string, target any) error {
	client := http.Client{Timeout: time.Minute} // a hung agent is an error
	scheme := "http"
	if a.TLS != nil {
		client.Transport, scheme = &http.Transport{TLSClientConfig: a.TLS, DisableKeepAlives: true}, "https"
	}
	response, err := client.Get(scheme + "://" + cmp.Or(a.Address, localhost) + ":4646/v1/" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(target)
}

// Await waits for a state.
func (a *Agent) Await(what string, done func() bool) {
	a.Helper()
	sandbox.Eventually(a, what, func() bool {
		select {
		case <-a.exited:
			if a.cmd != nil {
				a.Fatalf("the agent has ended by itself: %s", a.cmd.ProcessState)
			}
		default:
		}
		return done()
	})
}

// Nomad runs the command line, which has to succeed.
func (a *Agent) Nomad(args ...string) string {
	a.Helper()
	out, err := exec.Command(Binary(), args...).CombinedOutput()
	if err != nil {
		a.Fatalf("nomad %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Submit submits a job, without waiting for it.
func (a *Agent) Submit(id, hcl string) {
	a.Helper()
	path := filepath.Join(a.dir, id+".nomad.hcl")
	sandbox.WriteFile(a, path, hcl)
	a.Nomad("job", "run", "-detach", path)
}

// Stop stops and purges jobs, and waits until their networks are gone.
func (a *Agent) Stop(ids ...string) {
	a.Helper()
	for _, id := range ids {
		a.Nomad("job", "stop", "-purge", "-detach", id)
	}
	a.Quiet()
}

// Quiet waits until no allocation has a namespace.
func (a *Agent) Quiet() {
	a.Helper()
	a.Await("the namespaces are gone", func() bool {
		for _, name := range Busy(a.LogPath()) {
			_ = exec.Command("ip", "netns", "delete", name).Run() // or it is gone
		}
		docker, _ := filepath.Glob("/run/docker/netns/*")
		for _, path := range docker { // it leaves empty files for a while
			if ns, err := netns.Open(path); err == nil {
				_ = ns.Close() // read only
				return false
			}
		}
		left, err := os.ReadDir(netns.DefaultDir)
		return err == nil && len(left) == 0
	})
}
