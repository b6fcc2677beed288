// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package driver runs jobs on a real Nomad agent, unmodified, whose networks are
// attached by tasks of the driver.
package driver

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/allocnet/allocnet/internal/lab"
	"github.com/allocnet/allocnet/internal/lab/nomadlab"
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

func TestMain(m *testing.M) {
	os.Exit(lab.Enter(func() int {
		return nomadlab.Run(func() int {
			if err := prepare(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return m.Run()
		})
	}))
}

func prepare() error {
	for _, need := range []struct{ path, install string }{
		{nomadlab.Binary(), "make nomad"}, {busybox, "make deps"}, {"/usr/sbin/dockerd", "make deps"},
	} {
		if _, err := os.Stat(need.path); err != nil {
			return fmt.Errorf("%s is missing: run: %s", need.path, need.install)
		}
	}
	if err := lab.Prepare(); err != nil {
		return err
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
