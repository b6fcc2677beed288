// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// Run divides tests among sandboxes, and starts a cluster in each, with the policy of docs/cluster.md. It
// is what TestMain exits with. Before the tests, prepare gets the cluster.
func Run(layout Layout, prepare func(*Cluster) error, tests func() int) int {
	Main()
	end := func() {}
	return sandbox.MainDivided(func() int {
		code := tests()
		end()
		return code
	}, func() (err error) {
		end, err = start(layout, prepare)
		return err
	})
}

func start(layout Layout, prepare func(*Cluster) error) (end func(), err error) {
	rules, err := Policy()
	if err != nil {
		return nil, err
	}
	c, err := New(rules, layout)
	if err != nil {
		return nil, err
	}
	clean, err := nomadagent.Begin()
	if err != nil {
		return nil, err
	}
	end = func() {
		c.Close()
		clean()
	}
	if err = c.Start(); err == nil {
		err = prepare(c)
	}
	if err != nil {
		end()
	}
	return end, err
}

// KeepLogs copies the logs of all machines to a test's artifacts.
func (c *Cluster) KeepLogs(t testing.TB) {
	t.Helper()
	for _, m := range append(c.Servers, c.Clients...) {
		logs, _ := filepath.Glob(m.Path("*.log")) // the pattern is right
		for _, log := range logs {
			sandbox.Run(t, "cp", log, filepath.Join(t.ArtifactDir(), m.Name+"-"+filepath.Base(log)))
		}
	}
}
