// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	fakecni.Main()
	os.Exit(sandbox.MainIfRoot(func() int { return inMemory(m.Run) }))
}

// inMemory has the temporary directories of tests with thousands of hosts in memory, where the
// system has such a place.
func inMemory(run func() int) int {
	dir, err := os.MkdirTemp("/dev/shm", "allocnet")
	if err != nil {
		return run()
	}
	defer os.RemoveAll(dir) // what is left is of tests that have failed
	if err := os.Setenv("TMPDIR", dir); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}
