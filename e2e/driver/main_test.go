// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package driver runs jobs on a real Nomad agent, unmodified, whose networks are
// attached by tasks of the driver.
package driver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// Paths of the tests. /run is that of the sandbox.
const (
	dir       = "/run/nomad"
	pluginDir = dir + "/plugins"
	confDir   = dir + "/cni"
	dataDir   = dir + "/data"
	allocnet  = pluginDir + "/allocnet"
	// busybox is the program of the jobs' main tasks.
	busybox = "/bin/busybox"
)

// serverAddress is the address of the server on the link to a second client.
const serverAddress = "10.99.0.1"

func TestMain(m *testing.M) {
	os.Exit(sandbox.Main(func() int { return nomadagent.Run(m.Run) }, sandbox.InstallIPAM, prepare))
}

func prepare() error {
	for _, need := range []struct{ path, install string }{
		{busybox, "make deps"}, {"/usr/sbin/dockerd", "make deps"},
	} {
		if _, err := os.Stat(need.path); err != nil {
			return fmt.Errorf("%s is missing: run: %s", need.path, need.install)
		}
	}
	for _, command := range []string{
		"ip link add cluster type veth peer name second", "ip address add " + serverAddress + "/24 dev cluster", "ip link set cluster up",
	} {
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	for _, sub := range []string{pluginDir, confDir, dataDir, "/run/cni"} { // Nomad before 1.9.4 does not make the last one
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
	}
	return sandbox.Install(filepath.Dir(allocnet), "allocnet")
}
