// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package e2e runs allocnet as its users do, with the real CNI plugins, in a
// sandbox.
package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	fakecni.Main()
	os.Exit(sandbox.MainDivided(m.Run, func() error { return sandbox.InstallRaced(filepath.Dir(binary), "allocnet") }))
}

// binary is allocnet. /run is the sandbox's.
const binary = "/run/allocnet"

// host is a CNI configuration directory, a plugin directory and a state directory.
type host struct {
	t    *testing.T
	conf string
	// own is the directory of networks that Nomad does not read; empty for none.
	own     string
	plugins string
	state   string
	before  string
	// onlyOwn is whether plugins has the real plugins too.
	onlyOwn bool
	// path is what programs are searched in; empty for the test's own.
	path string
}

// newHost returns a host that has seen every network once. When the test ends
// the host must be as it was.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, conf: sandbox.WriteConf(t), plugins: t.TempDir(), state: t.TempDir()}
	sandbox.Warm(t, h.conf)
	fakecni.Install(t, h.plugins)
	h.before = sandbox.Snapshot(t)
	t.Cleanup(func() {
		sandbox.RequireSame(t, h.before)
		h.requireNoState()
	})
	return h
}

// withoutPlugins makes the host one on which no plugin is installed, whichever executor the
// tests run with.
func (h *host) withoutPlugins() {
	h.t.Helper()
	h.plugins, h.onlyOwn = h.t.TempDir(), true
	h.t.Setenv("ALLOCNET_EXECUTOR", "auto")
}

// awaitProcesses waits for those that retry in the background: the last thing that they write
// is an event.
func (h *host) awaitProcesses() {
	h.t.Helper()
	variable := []byte("ALLOCNET_STATE_DIR=" + h.state + "\x00")
	sandbox.Eventually(h.t, "no process uses "+h.state, func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		return !slices.ContainsFunc(files, func(file string) bool {
			environment, _ := os.ReadFile(file) // those of ended processes cannot be read
			return bytes.Contains(environment, variable)
		})
	})
}

// requireNoState fails the test when a record or a lock is left. The events stay, the directories in which networks
// were created, and the note of the boot, also a half written one, which the next attach replaces.
func (h *host) requireNoState() {
	h.t.Helper()
	sandbox.RequireNothing(h.t, "state", func() string {
		allocations, _ := filepath.Glob(h.state + "/allocations/*")
		return sandbox.Run(h.t, "find", h.state, "-ignore_readdir_race", "-type", "f", "!", "-name", "*boot", "!", "-path", h.state+"/events/*", "!", "-path", h.state+"/networks/*") + strings.Join(allocations, "\n")
	})
}

// outcome is what a run of allocnet gave.
type outcome struct {
	stdout, stderr string
	code           int
}

func (h *host) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	plugins := sandbox.PluginDir() + ":" + h.plugins
	if h.onlyOwn {
		plugins = h.plugins
	}
	cmd.Env = append(os.Environ(),
		"ALLOCNET_CONF_DIR="+strings.TrimPrefix(h.own+":"+h.conf, ":"),
		"ALLOCNET_PLUGIN_DIR="+plugins,
		"ALLOCNET_STATE_DIR="+h.state,
		"GORACE=atexit_sleep_ms=0", // a second for each call otherwise
	)
	if h.path != "" {
		cmd.Env = append(cmd.Env, "PATH="+h.path)
	}
	return cmd
}

func (h *host) allocnet(args ...string) outcome {
	h.t.Helper()
	cmd := h.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// must runs allocnet, which has to succeed.
func (h *host) must(args ...string) string {
	h.t.Helper()
	o := h.allocnet(args...)
	if o.code != 0 {
		h.t.Fatalf("allocnet %s: exit code %d\n%s", strings.Join(args, " "), o.code, o.stderr)
	}
	return o.stdout
}

// refuse runs allocnet, which has to fail with the code and say the words.
func (h *host) refuse(code int, words []string, args ...string) {
	h.t.Helper()
	o := h.allocnet(args...)
	if o.code != code {
		h.t.Errorf("allocnet %q: exit code %d, want %d\n%s", args, o.code, code, o.stderr)
	}
	for _, word := range words {
		if !strings.Contains(o.stderr, word) {
			h.t.Errorf("allocnet %q: the error does not say %q:\n%s", args, word, o.stderr)
		}
	}
}

// attach attaches and returns the existing attachments. Without a primary the networks are enough.
func (h *host) attach(args ...string) *hook.Allocation {
	h.t.Helper()
	if !slices.ContainsFunc(args, func(a string) bool { return slices.Contains([]string{"--primary", "--netns", "--file"}, a) }) {
		args = append(slices.Clone(args), "--primary=")
	}
	var a hook.Allocation
	text := h.must(append([]string{"attach", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		h.t.Fatalf("%v in %s", err, text)
	}
	return &a
}

// fake adds a network whose plugins are a bridge and then the fake.
func (h *host) fake(name string, script fakecni.Script) {
	h.t.Helper()
	data, err := json.Marshal(script)
	if err != nil {
		h.t.Fatal(err)
	}
	sandbox.WriteFile(h.t, filepath.Join(h.conf, "90-"+name+".conflist"), fmt.Sprintf(
		`{"cniVersion": "1.0.0", "name": %q, "plugins": [
			{"type": "bridge", "bridge": "storage0", "ipam": {"type": "host-local", "subnet": "10.93.0.0/16", "dataDir": "/run/fake-leases"}},
			{"type": "fakecni", "fake": %s}]}`, name, data))
	h.t.Cleanup(func() { _ = os.RemoveAll("/run/fake-leases") })
}

// serve answers HTTP inside a namespace with a text.
func serve(t *testing.T, path, address, text string) {
	t.Helper()
	ns, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var listener net.Listener
	err = ns.Do(func() error {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, text)
	})}
	go server.Serve(listener)
	t.Cleanup(func() { _ = server.Close() })
}

// get asks a URL from the host's namespace.
func get(url string) (string, error) {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	return body.String(), err
}

// await waits for a file that a fake plugin makes.
func await(t *testing.T, path string) {
	t.Helper()
	sandbox.Eventually(t, path+" appears", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}
