// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package store tests the store of a cluster, and what is asked of Nomad, on a real Nomad
// server with ACLs, in a sandbox.
package store

import (
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// dir is in the sandbox's /run.
const dir = "/run/e2e-store"

func TestMain(m *testing.M) {
	os.Exit(sandbox.Main(func() int { return nomadagent.Run(m.Run) }))
}
