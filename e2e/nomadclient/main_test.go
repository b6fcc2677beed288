// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package nomadclient has the tests of what later versions of Nomad do and the last that is open source
// does not, with a caller that makes the same CNI calls. The first test holds the caller to the real
// Nomad 1.6.2.
package nomadclient

import (
	"errors"
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// Paths of the tests. /run is that of the sandbox.
const (
	dir      = "/run/e2e-nomadclient"
	plugins  = dir + "/plugins"
	confDir  = dir + "/cni"
	dataDir  = dir + "/data"
	allocDir = dataDir + "/alloc"
	// ownDir has the networks with a policy. Nomad does not read it.
	ownDir = dir + "/networks"
	// web is the program of the tasks; allocnet is the command line.
	web      = dir + "/web"
	allocnet = dir + "/allocnet"
)

func TestMain(m *testing.M) {
	fakecni.Main()
	os.Exit(sandbox.MainDivided(func() int { return nomadagent.Run(m.Run) }, sandbox.InstallIPAM, prepare))
}

func prepare() error {
	for _, sub := range []string{plugins, confDir, ownDir, allocDir} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(sandbox.Install(plugins, "allocnet-cni"), sandbox.Install(dir, "allocnet", "web"))
}
