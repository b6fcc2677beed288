// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cluster runs jobs on three servers and three clients of a real Nomad, whose
// allocations share one network, while parts of the cluster fail.
package cluster

import (
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// lab is the cluster of all tests of this process: it takes a while to start.
var lab *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Run(cluster.Layout{Conflists: map[string]string{floating: floatingConflist}}, func(c *cluster.Cluster) error {
		lab = c
		return nil
	}, m.Run))
}
