// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package driver runs jobs on a real Nomad agent, unmodified, whose networks are
// attached by tasks of the driver.
package driver

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
	dir       = "/run/nomad"
	pluginDir = dir + "/plugins"
	confDir   = dir + "/cni"
	dataDir   = dir + "/data"
	allocnet  = pluginDir + "/allocnet"
	// busybox is the program of the jobs' main tasks.
	busybox = "/bin/busybox"
)

// serverAddress is the server's on the link to a second client.
const serverAddress = "10.99.0.1"

// machineCgroups is where the machine's control groups are kept in sight: the
// laboratory has a /sys of its own, and the exec driver needs them.
const machineCgroups = "/sys/fs/cgroup"

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
	for _, need := range []struct{ path, install string }{
		{binary(), "make nomad"}, {busybox, "make deps"}, {"/usr/sbin/dockerd", "make deps"},
	} {
		if _, err := os.Stat(need.path); err != nil {
			return fmt.Errorf("%s is missing: run: %s", need.path, need.install)
		}
	}
	cgroups, err := unix.Open(machineCgroups, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	if err := lab.Prepare(); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", cgroups), machineCgroups, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount control groups: %w", err)
	}
	if err := lab.Uplink(); err != nil {
		return err
	}
	for _, command := range []string{
		"ip link add cluster type veth peer name second", "ip address add " + serverAddress + "/24 dev cluster", "ip link set cluster up",
	} {
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	for _, sub := range []string{pluginDir, confDir, dataDir} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
	}
	build := exec.Command("go", "build", "-o", allocnet, "../../cmd/allocnet")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build allocnet: %w: %s", err, out)
	}
	return nil
}

// binary is the agent that `make nomad` builds.
func binary() string { return filepath.Join(lab.Root(), "build", "nomad", "nomad") }

// killTasks ends what jobs a failed test left running.
func killTasks() {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environ, []byte("NOMAD_ALLOC_DIR="+dataDir)) && !bytes.Contains(environ, []byte(agentMark)) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/environ", &pid); err == nil && pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// controlGroups returns the machine's groups of Nomad: they are in no
// namespace.
func controlGroups() map[string]bool {
	present := map[string]bool{}
	for _, pattern := range []string{machineCgroups + "/nomad*", machineCgroups + "/*/nomad*"} {
		found, _ := filepath.Glob(pattern)
		for _, group := range found {
			present[group] = true
		}
	}
	return present
}

// removeControlGroups removes the groups that were not there before.
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
