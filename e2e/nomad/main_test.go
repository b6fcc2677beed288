// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package nomad runs jobs on a real Nomad agent, unmodified, that attaches them
// with allocnet-cni.
package nomad

import (
	"errors"
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// Paths of the tests. /run is that of the sandbox.
const (
	dir     = "/run/e2e-nomad"
	plugins = dir + "/plugins"
	confDir = dir + "/cni"
	// ownDir has the networks with a policy. Nomad does not read it.
	ownDir  = dir + "/networks"
	dataDir = dir + "/data"
	// web is the program of the jobs; allocnet is the command line.
	web      = dir + "/web"
	allocnet = dir + "/allocnet"
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.Main(func() int { return nomadagent.Run(m.Run) }, prepare))
}

func prepare() error {
	for _, sub := range []string{plugins, confDir, ownDir, dataDir} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(sandbox.Install(plugins, "allocnet-cni"), sandbox.Install(dir, "allocnet", "web"))
}
