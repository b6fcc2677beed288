// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package nomad runs jobs on a real Nomad agent, unmodified, that attaches them
// with allocnet-cni.
package nomad

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
	if _, err := os.Stat(nomadlab.Binary()); err != nil {
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
