// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package nomad runs jobs on a real Nomad agent, unmodified, that attaches them
// with allocnet-cni.
package nomad

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/lab"
)

// Where things are. /run is the laboratory's.
const (
	dir     = "/run/e2e-nomad"
	plugins = dir + "/plugins"
	confDir = dir + "/cni"
	dataDir = dir + "/data"
	// web is the program of the jobs; allocnet is the command line.
	web      = dir + "/web"
	allocnet = dir + "/allocnet"
)

func TestMain(m *testing.M) {
	os.Exit(lab.Enter(func() int {
		groups := controlGroups()
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		killTasks()
		removeControlGroups(groups)
		return code
	}))
}

func prepare() error {
	if _, err := os.Stat(binary()); err != nil {
		return fmt.Errorf("the Nomad agent is missing: run: make nomad")
	}
	if err := lab.Prepare(); err != nil {
		return err
	}
	if err := lab.Uplink(); err != nil {
		return err
	}
	for _, sub := range []string{plugins, confDir, dataDir} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
	}
	for output, pkg := range map[string]string{plugins + "/allocnet-cni": "../../cmd/allocnet-cni", allocnet: "../../cmd/allocnet", web: "../web"} {
		build := exec.Command("go", "build", "-o", output, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", pkg, err, out)
		}
	}
	return nil
}

// binary is the agent that `make nomad` builds.
func binary() string { return filepath.Join(lab.Root(), "build", "nomad", "nomad") }

// killTasks ends what runs for the jobs.
func killTasks() {
	for _, pid := range tasks() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// tasks returns the processes that the agent has started, and their children.
func tasks() []int {
	var found []int
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environ, []byte(agentMark())) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/environ", &pid); err == nil && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}

// controlGroups returns the machine's groups of Nomad: they are in no
// namespace.
func controlGroups() map[string]bool {
	present := map[string]bool{}
	for _, pattern := range []string{"/sys/fs/cgroup/nomad*", "/sys/fs/cgroup/*/nomad*"} {
		found, _ := filepath.Glob(pattern)
		for _, group := range found {
			present[group] = true
		}
	}
	return present
}

// removeControlGroups removes the groups that were not there before, and what
// is in them.
func removeControlGroups(before map[string]bool) {
	for group := range controlGroups() {
		if !before[group] {
			out, err := exec.Command("find", group, "-depth", "-type", "d", "-delete").CombinedOutput()
			if err != nil {
				fmt.Fprintf(os.Stderr, "control group %s is left: %s\n", group, out)
			}
		}
	}
}
