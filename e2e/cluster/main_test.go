// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cluster runs jobs on three servers and three clients of a real Nomad, whose
// allocations share one network, while parts of the cluster fail.
package cluster

import (
	"fmt"
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// lab is the cluster of all tests: it takes a while to start.
var lab *cluster.Cluster

func TestMain(m *testing.M) {
	cluster.Main()
	os.Exit(sandbox.Main(func() int { return nomadagent.Run(func() int { return run(m) }) }))
}

func run(m *testing.M) int {
	rules, err := cluster.Policy()
	if err == nil {
		lab, err = cluster.New(rules, cluster.Layout{})
	}
	if err == nil {
		defer lab.Close()
		err = lab.Start()
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
