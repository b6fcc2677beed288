// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package chaos kills allocnet at random instants, damages its records and plugins, fills
// its disk, and searches for leaks, with the real CNI plugins, in a sandbox.
//
// ALLOCNET_CHAOS_ROUNDS is the number of rounds of a test, ALLOCNET_CHAOS_KILLS that of the
// kills of TestKilledCommand and TestKilledCall, and ALLOCNET_CHAOS_SEED the seed of the random choices.
package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// Where things are. /run is the sandbox's.
const (
	bin    = "/run/bin"
	binary = bin + "/allocnet"
)

var (
	// rounds and kills are few enough for `make test`; `make chaos` sets 500 and
	// 250. Kills are those with each seed: four of each operation.
	rounds = sandbox.Number("ALLOCNET_CHAOS_ROUNDS", 15)
	kills  = sandbox.Number("ALLOCNET_CHAOS_KILLS", 60)
	seed   = sandbox.Number("ALLOCNET_CHAOS_SEED", uint64(time.Now().UnixNano()))
)

// fixedSeed is used in every run, in addition to the random one.
const fixedSeed = 1

// chance returns the random numbers of one round of a test: they depend on the seed and
// the round only.
func chance(seed, round uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, round)) }

func TestMain(m *testing.M) {
	fakecni.Main()
	os.Exit(sandbox.MainDivided(m.Run, install))
}

// install prints the seeds, and installs the programs without the race detector, which would
// change instants, memory and open files.
func install() error {
	fmt.Printf("ALLOCNET_CHAOS_SEED=%d ALLOCNET_CHAOS_ROUNDS=%d ALLOCNET_CHAOS_KILLS=%d\n", seed, rounds, kills)
	return sandbox.Install(bin, "allocnet", "allocnet-cni")
}

// host is a CNI configuration directory, a plugin directory and a state directory.
type host struct {
	*testing.T
	// config is the configuration file of the agent.
	conf, plugins, state, config string
	// sandbox is a namespace that allocnet does not remove, such as that of a runtime.
	sandbox string
	before  string
	inside  string
	// path is the PATH of commands. Empty: that of the test.
	path string
}

// newHost returns a host on which each network was attached once. When the test ends, the
// host must be as it was.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t, conf: sandbox.WriteConf(t), plugins: t.TempDir(), state: t.TempDir(), config: t.TempDir()}
	h.ownAddresses()
	sandbox.Warm(t, h.conf)
	fakecni.Install(t, h.plugins)
	h.ownPlugins()
	path, err := netns.Create(netns.DefaultDir, "sandbox")
	if err != nil {
		t.Fatal(err)
	}
	h.sandbox = path
	h.must("attach", "first", "--primary", "storage") // of this boot
	h.must("detach", "first")
	h.remember()
	t.Cleanup(func() {
		h.requireSame()
		if err := netns.Remove(path); err != nil {
			t.Error(err)
		}
	})
	return h
}

// ownAddresses gives the networks other addresses than those of other tests: an
// address that any namespace of the machine has is not a dead allocation's.
func (h *host) ownAddresses() {
	h.Helper()
	files, _ := filepath.Glob(h.conf + "/*")
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			h.Fatal(err)
		}
		sandbox.WriteFile(h, path, strings.NewReplacer(`"10.`, `"10.1`, `"fd00:`, `"fd01:`).Replace(string(text)))
	}
}

// ownPlugins puts the real plugins into the host's directory, where a test can change them.
func (h *host) ownPlugins() {
	h.Helper()
	real, _ := filepath.Glob(sandbox.PluginDir() + "/*")
	for _, path := range append(real, bin+"/allocnet-cni") {
		if err := os.Symlink(path, filepath.Join(h.plugins, filepath.Base(path))); err != nil {
			h.Fatal(err)
		}
	}
}

// on returns the host for a subtest.
func (h *host) on(t *testing.T) *host {
	part := *h
	part.T = t
	return &part
}

// remember takes the snapshots that requireSame compares with.
func (h *host) remember() {
	h.Helper()
	h.before, h.inside = sandbox.Snapshot(h), h.look()
}

// look returns the interfaces and routes in the sandbox.
func (h *host) look() string {
	h.Helper()
	return sandbox.Run(h, "ip", "-n", "sandbox", "-o", "link") + sandbox.Run(h, "ip", "-n", "sandbox", "route")
}

// requireSame fails the test if objects are left on the host or in the sandbox, or records
// or locks.
func (h *host) requireSame() {
	h.Helper()
	sandbox.RequireSame(h, h.before)
	if inside := h.look(); inside != h.inside {
		h.Errorf("left in the sandbox:\n%s", inside)
	}
	sandbox.RequireNothing(h, "state", func() string {
		return sandbox.Run(h, "find", h.state, "-ignore_readdir_race", "-mindepth", "2", "!", "-path", h.state+"/damaged*", "!", "-path", h.state+"/events*")
	})
}

// outcome is the output and the exit code of a run of allocnet.
type outcome struct {
	text string
	code int
}

func (h *host) env() []string {
	env := append(os.Environ(),
		"ALLOCNET_CONF_DIR="+h.conf, "ALLOCNET_PLUGIN_DIR="+h.plugins, "ALLOCNET_STATE_DIR="+h.state,
		"ALLOCNET_CONFIG="+h.config, "PATH="+bin+":"+os.Getenv("PATH"))
	if h.path != "" {
		env = append(env, "PATH="+h.path)
	}
	return env
}

func (h *host) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = h.env()
	return cmd
}

func (h *host) allocnet(args ...string) outcome { return h.run(h.command(args...)) }

func (h *host) run(cmd *exec.Cmd) outcome {
	h.Helper()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.Fatal(err)
	}
	return outcome{string(bytes.TrimSpace(out)), cmd.ProcessState.ExitCode()}
}

// must runs allocnet, and fails the test if it fails.
func (h *host) must(args ...string) string {
	h.Helper()
	o := h.allocnet(args...)
	if o.code != 0 {
		h.Fatalf("allocnet %s: exit code %d\n%s", strings.Join(args, " "), o.code, o.text)
	}
	return o.text
}

// refuse runs allocnet, and fails the test unless it fails with the words in its output.
func (h *host) refuse(words string, args ...string) {
	h.Helper()
	h.requireRefused(h.allocnet(args...), words)
}

func (h *host) requireRefused(o outcome, words string) {
	h.Helper()
	if o.code <= 0 || !strings.Contains(o.text, words) {
		h.Errorf("exit code %d, want a failure that says %q:\n%s", o.code, words, o.text)
	}
}

// fake adds a network whose plugins are a bridge and then the fake.
func (h *host) fake(name string, script fakecni.Script) {
	h.Helper()
	data, err := json.Marshal(script)
	if err != nil {
		h.Fatal(err)
	}
	sandbox.WriteFile(h, filepath.Join(h.conf, "90-"+name+".conflist"), fmt.Sprintf(
		`{"cniVersion": "1.0.0", "name": %q, "plugins": [
			{"type": "bridge", "bridge": "storage0", "ipam": {"type": "host-local", "subnet": "10.193.0.0/16", "dataDir": "/run/fake-leases"}},
			{"type": "fakecni", "fake": %s}]}`, name, data))
	h.Cleanup(func() { _ = os.RemoveAll("/run/fake-leases") })
}

// await waits until a condition is true.
func (h *host) await(what string, so func() bool) {
	h.Helper()
	sandbox.Eventually(h, what, so)
}

func present(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
