// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package agent runs `allocnet agent` as its users do, with the real CNI
// plugins, in a sandbox.
package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// Paths of the tests. /run is that of the sandbox.
const (
	bin    = "/run/bin"
	binary = bin + "/allocnet"
	plugin = bin + "/allocnet-cni"
)

func TestMain(m *testing.M) {
	fakecni.Main()
	os.Exit(sandbox.MainDivided(m.Run, sandbox.InstallIPAM, func() error { return sandbox.InstallRaced(bin, "allocnet", "allocnet-cni") }))
}

// host has a CNI configuration directory, plugin directories and a state directory,
// with an agent or without.
type host struct {
	*testing.T
	conf, plugins, state, config, socket string
	before                               string
	client                               *client.Client

	// handOver is a socket that the agent gets as systemd would give it.
	handOver *os.File
	// isolation are the namespaces that the agent gets, as clone(2) has them.
	isolation uintptr

	cmd  *exec.Cmd
	log  *log
	done chan error
}

// newHost returns a host to which every network has been attached once, so that its
// bridges and shared chains exist. When the test ends, the host has to be as it was then.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t, conf: sandbox.WriteConf(t), plugins: t.TempDir(), state: t.TempDir(), config: t.TempDir(), socket: "/run/allocnet/agent.sock"}
	h.client = client.New(h.socket)
	sandbox.Warm(t, h.conf)
	fakecni.Install(t, h.plugins)
	if err := os.Symlink(plugin, h.plugins+"/allocnet-cni"); err != nil {
		t.Fatal(err)
	}
	h.before = sandbox.Snapshot(t)
	t.Cleanup(func() {
		h.end(unix.SIGTERM)
		sandbox.RequireSame(t, h.before)
		sandbox.RequireNothing(t, "state", func() string {
			return sandbox.Run(t, "find", h.state, "-ignore_readdir_race", "-type", "f", "-not", "-name", "*boot", "-not", "-path", h.state+"/events/*")
		})
		if left, _ := filepath.Glob("/run/allocnet/*"); left != nil {
			t.Errorf("left of the agent: %v", left)
		}
	})
	return h
}

// log is the output of a process, in which a test can wait for a text.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (h *host) env() []string {
	return append(os.Environ(),
		"PATH="+bin+":"+os.Getenv("PATH"),
		"ALLOCNET_CONF_DIR="+h.conf,
		"ALLOCNET_PLUGIN_DIR="+sandbox.PluginDir()+":"+h.plugins,
		"ALLOCNET_STATE_DIR="+h.state,
		"ALLOCNET_CONFIG="+h.config,
		"GORACE=atexit_sleep_ms=0", // the race detector would sleep a second at each exit
	)
}

// start starts the agent and waits until it is ready.
func (h *host) start(args ...string) {
	h.Helper()
	h.launch(append([]string{binary, "agent"}, args...)...)
	h.await("the agent is ready", func() bool { return h.client.Ready(context.Background()) == nil })
}

// launch starts a command that becomes the agent.
func (h *host) launch(words ...string) {
	h.Helper()
	h.cmd = exec.Command(words[0], words[1:]...)
	h.cmd.Env, h.log = h.env(), &log{}
	h.cmd.Stdout, h.cmd.Stderr = h.log, h.log
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: h.isolation}
	if h.handOver != nil {
		h.cmd.ExtraFiles = []*os.File{h.handOver}
	}
	if err := h.cmd.Start(); err != nil {
		h.Fatal(err)
	}
	h.done = make(chan error, 1)
	go func(cmd *exec.Cmd, done chan error) { done <- cmd.Wait() }(h.cmd, h.done)
}

// end signals the agent, if one runs, and waits until it has exited.
func (h *host) end(s unix.Signal) {
	if h.cmd == nil {
		return
	}
	_ = h.cmd.Process.Signal(s)
	err := <-h.done
	if s == unix.SIGTERM && err != nil {
		h.Errorf("the agent ended with %v\n%s", err, h.log)
	}
	if strings.Contains(h.log.String(), "DATA RACE") {
		h.Errorf("%s", h.log)
	}
	h.cmd = nil
}

func (h *host) await(what string, done func() bool) {
	h.Helper()
	sandbox.Eventually(h, what, done, func() string { return fmt.Sprint(h.log) })
}

// allocnet runs the command line.
func (h *host) allocnet(args ...string) (string, int) {
	h.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = h.env()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// configure writes the agent's configuration.
func (h *host) configure(text string) {
	h.Helper()
	sandbox.WriteFile(h.T, h.config+"/agent.hcl", text)
}

// request sends an HTTP request without the package client.
func (h *host) request(method, path, body string) (int, string) {
	h.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", h.socket)
	}}}
	request, err := http.NewRequest(method, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		h.Fatalf("%s %s: %v\n%s", method, path, err, h.log)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		h.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// metric returns the value of a series, 0 when it is not there.
func (h *host) metric(series string) float64 {
	h.Helper()
	_, text := h.request("GET", api.PathMetrics, "")
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(text)
	if line == nil {
		return 0
	}
	value, err := strconv.ParseFloat(line[1], 64)
	if err != nil {
		h.Fatal(err)
	}
	return value
}

// must fails the test if the call fails.
func must[T any](h *host) func(T, error) T {
	return func(value T, err error) T {
		h.Helper()
		if err != nil {
			h.Fatalf("%v\n%s", err, h.log)
		}
		return value
	}
}

// fake adds a network whose plugins are a bridge and then the fake.
func (h *host) fake(name string, script fakecni.Script) {
	h.Helper()
	data, err := json.Marshal(script)
	if err != nil {
		h.Fatal(err)
	}
	sandbox.WriteFile(h.T, filepath.Join(h.conf, "90-"+name+".conflist"), fmt.Sprintf(
		`{"cniVersion": "1.0.0", "name": %q, "plugins": [
			{"type": "bridge", "bridge": "storage0", "ipam": {"type": "host-local", "subnet": "10.93.0.0/16", "dataDir": "/run/fake-leases"}},
			{"type": "fakecni", "fake": %s}]}`, name, data))
	h.Cleanup(func() { _ = os.RemoveAll("/run/fake-leases") })
}

func interfaces(a *api.Allocation) string {
	var names []string
	for _, attachment := range a.Attachments {
		names = append(names, attachment.Interface)
	}
	return strings.Join(names, " ")
}
