// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// Run starts a cluster in a sandbox, with the policy of docs/cluster.md, and runs tests on it. It is
// what TestMain exits with.
func Run(layout Layout, tests func(*Cluster) int) int {
	Main()
	return sandbox.Main(func() int {
		return nomadagent.Run(func() int {
			code, err := run(layout, tests)
			if err != nil {
				_, _ = fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return code
		})
	})
}

func run(layout Layout, tests func(*Cluster) int) (int, error) {
	rules, err := Policy()
	if err != nil {
		return 0, err
	}
	c, err := New(rules, layout)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.Start(); err != nil {
		return 0, err
	}
	return tests(c), nil
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
